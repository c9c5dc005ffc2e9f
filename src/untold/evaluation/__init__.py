"""Measures translations and systems: scores, significance, separation, speed."""
