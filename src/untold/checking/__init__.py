"""Checks translations in files: what they left out, and what nothing in the source explains."""
