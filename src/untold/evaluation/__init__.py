"""Figures about systems and translations: scores, significance, separation, speed."""
