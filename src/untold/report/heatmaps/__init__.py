"""Figures of past, future and redundant: panels for short sentences, overviews of long ones."""
