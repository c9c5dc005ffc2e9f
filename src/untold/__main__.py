"""Runs the command line as `python -m untold` or `torchrun -m untold`."""

from untold.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
