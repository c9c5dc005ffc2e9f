"""Search: greedy, beam, sampling, constraints and penalties. It knows no text and no file."""
