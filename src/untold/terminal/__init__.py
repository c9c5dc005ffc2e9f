"""Prints for people and for programs: harmless on a terminal, exact in files and pipes."""
