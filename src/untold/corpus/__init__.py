"""Turns text into batches: readers, tokenizer, store, batching, and synchronous grammars."""
