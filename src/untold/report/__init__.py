"""Figures made visible: pictures, pages, the terminal."""
