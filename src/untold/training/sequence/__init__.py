"""Learning from whole translations: samplers, rewards, estimators, judges, and the goal of all."""
