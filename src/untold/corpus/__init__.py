"""Text in: readers, the tokenizer, stores and batches, and the embedded synchronous grammars."""
