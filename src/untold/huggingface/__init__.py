"""Hugging Face encoder-decoders as backbones; transformers is imported here alone, when needed."""
