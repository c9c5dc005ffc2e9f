"""The three categories of a source word, in the order of the last axis of all assignments."""

CATEGORIES = ("past", "future", "redundant")
PAST, FUTURE, REDUNDANT = range(len(CATEGORIES))
