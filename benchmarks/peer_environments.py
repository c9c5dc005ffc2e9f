"""Builds an environment for each toolkit that our training races: build/peers/NAME.

    python benchmarks/peer_environments.py             # all that are missing
    python benchmarks/peer_environments.py joeynmt     # this one, anew

All get the same torch as this project. Where a toolkit's own requirements forbid it, it is
installed without them and its other requirements are named here. A toolkit that cannot be
installed is reported with pip's last line, and the others are built all the same.
"""

import argparse
import shutil
import subprocess
import sys
import venv
from pathlib import Path

__all__ = ["ENVIRONMENTS", "environment_python"]

FOLDER = Path(__file__).parents[1] / "build" / "peers"
TORCH = "torch==2.13.0"  # by this exact name the index gives the build for processors alone
# The environment of each toolkit; Marian with and without the Trainer share one.
ENVIRONMENTS = {
    "marian": "marian",
    "trainer": "marian",
    "joeynmt": "joeynmt",
    "sockeye": "sockeye",
    "eole": "eole",
    "opennmt": "opennmt",
}
# What is installed after torch, a command each.
STEPS: dict[str, list[list[str]]] = {
    "marian": [["transformers==5.22.2", "accelerate==1.15.0"]],
    "joeynmt": [["joeynmt==2.3.0", "importlib_metadata"]],
    # Sockeye 3 asks for torch 1; of the versions that do not, the last one needs MXNet.
    "sockeye": [
        ["--no-deps", "sockeye==3.1.34"],
        ["numpy<2", "pyyaml", "sacrebleu", "portalocker"],
    ],
    "eole": [["eole==0.6.4"]],
    # OpenNMT-py 3.5 asks for torch before 2.3.
    "opennmt": [
        ["--no-deps", "OpenNMT-py==3.5.1"],
        ["numpy", "configargparse", "pyyaml", "sacrebleu", "sentencepiece", "subword-nmt"],
        ["ctranslate2>=4", "flask", "waitress", "pyonmttok", "rapidfuzz", "six", "spacy"],
        ["fasttext-wheel", "pyahocorasick", "tensorboard"],
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(STEPS)}; those are built anew")
    names = parser.parse_args().names
    if unknown := sorted(set(names) - set(STEPS)):
        sys.exit(f"{unknown[0]}: there is no such toolkit: choose of {', '.join(STEPS)}")
    failed = [name for name in names or STEPS if not build(name, anew=bool(names))]
    sys.exit(1 if failed else 0)


def environment_python(toolkit: str) -> str:
    """The interpreter of a toolkit's environment."""
    return str(FOLDER / ENVIRONMENTS[toolkit] / "bin" / "python")


def build(name: str, *, anew: bool) -> bool:
    """Makes an environment; a broken one is removed again, so that it never takes part."""
    folder = FOLDER / name
    if folder.exists() and not anew:
        print(f"{name}: exists already")
        return True
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    for step in [[TORCH], *STEPS[name]]:
        command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *step]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            shutil.rmtree(folder)
            print(f"{name}: {' '.join(step)}: {run.stderr.strip().rpartition(chr(10))[2]}")
            return False
    print(f"{name}: built")
    return True


if __name__ == "__main__":
    main()
