"""Bodies of the larger commands; cli.py declares them."""
