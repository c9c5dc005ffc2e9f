"""A model of transformers with past and future: its class, its batches, its folders."""
