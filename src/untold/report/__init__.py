"""Draws explanations and comparisons: terminal tables, pictures, HTML pages and JSON."""
