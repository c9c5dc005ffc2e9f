"""Models of other programs become untold's own, and untold's become those of other programs."""
