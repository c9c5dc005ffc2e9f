"""Training: data, losses, the trainer, checkpoints, and the run that connects them."""
