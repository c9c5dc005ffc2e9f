"""The items of the paper's evidence: each names its systems, measures, and says what it found."""
