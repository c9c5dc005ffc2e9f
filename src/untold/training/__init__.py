"""From a configuration to a trained model: data, objective, loop, checkpoints."""
