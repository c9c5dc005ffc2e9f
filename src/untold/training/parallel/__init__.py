"""Training by several processes: who computes what, how gradients meet, and who has died."""
