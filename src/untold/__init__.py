"""untold: neural machine translation that knows what it has said and what is still untold."""
