"""Word aligners: trained on a corpus, frozen, asked for the links of any pair."""
