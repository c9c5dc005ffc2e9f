"""Shows how a translation came about: assignments, copies and inner states of the model."""
