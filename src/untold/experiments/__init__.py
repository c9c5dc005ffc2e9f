"""The paper's evidence: every table and figure by one command each."""
