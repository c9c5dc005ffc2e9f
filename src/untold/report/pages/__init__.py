"""Parts that all self-contained HTML pages share; importing them is quick."""
