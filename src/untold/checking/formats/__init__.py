"""Reads one format of translations a module; untold.checking.segment_readers chooses among them."""
