"""Readers of corpora in the files that their publishers ship."""
