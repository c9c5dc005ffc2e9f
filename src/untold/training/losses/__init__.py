"""The losses: one file for each, and the objective that adds them up."""
