"""`python -m untold`, and so `torchrun -m untold`, is the command line."""

from untold.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
