"""The commands of `untold`, one module each. Modules import torch only when a command runs."""
