"""A run by one process, with which those by several are compared."""

import pytest

from toys import toy_config, write_corpus
from untold.training.log import Reporter
from untold.training.run import RunOptions, train


class Teller(Reporter):
    """Writes down what it says."""

    def say(self, line):
        self.run.mkdir(parents=True, exist_ok=True)
        with open(self.run / "said.txt", "a") as file:
            print(line, file=file)


@pytest.fixture(scope="session")
def shared_run(tmp_path_factory):
    """shared_run(out, steps=6) trains in this process, and returns `out`.

    Dropout and all losses of GDR are on. The auxiliary losses begin late: until then, their
    parameters have no gradient in any process.
    """
    corpus = write_corpus(tmp_path_factory.mktemp("corpus"))

    def run(out, **settings):
        wanted = {"steps": 6, "log_every": 1, "save_every": 3, "accumulate": 2}
        wanted |= {"auxiliary_start": 2, "validate_bleu": False, "best_by": "loss"}
        config = toy_config(
            corpus,
            data={"valid": None},
            model={"dropout": 0.3, "separator": {"kind": "gdr"}},
            train=wanted | settings,
        )
        train(config, RunOptions(out), Teller(out, 6))
        return out

    return run


@pytest.fixture(scope="session")
def alone(shared_run, tmp_path_factory):
    """The run by one process; it also imports all that forked processes will need."""
    return shared_run(tmp_path_factory.mktemp("alone") / "run")
