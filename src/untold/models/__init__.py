"""Backbones behind one interface, the wiring around them, and their files."""
