"""Synchronous grammars that generate sentence pairs with known word links."""
