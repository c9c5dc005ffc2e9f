"""Scores of translations, of coverage and of separation, and their significance."""
