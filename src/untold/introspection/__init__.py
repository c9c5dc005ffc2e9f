"""How translations came about: assignments, copies and inner states, word by word."""
