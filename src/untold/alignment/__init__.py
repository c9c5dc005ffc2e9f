"""Word alignment: trains aligners on a corpus and links the words of any sentence pair."""
