"""Sequence-level training: samplers, rewards, estimators, critics, and the objective of all."""
