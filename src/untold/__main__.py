"""Runs the command line as `untold`, `python -m untold` or `torchrun -m untold`."""

from untold.interruption import stop_on_signals
from untold.standard_streams import open_closed_descriptors


def main() -> None:
    """Run the command line; signals are heeded from the first moment, before its imports."""
    open_closed_descriptors()
    with stop_on_signals():
        from untold.cli import main as run

        run()


if __name__ == "__main__":
    main()
