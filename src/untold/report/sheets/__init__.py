"""Shows adequacy sheets: the page that raters fill in, and the table of their ratings."""
