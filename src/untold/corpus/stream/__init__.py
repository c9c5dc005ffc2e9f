"""Corpora in many files or of a dataset, which are read while a model trains on them."""
