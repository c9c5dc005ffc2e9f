"""Computations that models and losses share: squashing, fast routing, samples of a vocabulary."""
