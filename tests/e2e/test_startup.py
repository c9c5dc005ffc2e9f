"""Commands import no more than they need: what starts quickly today stays so."""

import subprocess
import sys
from pathlib import Path

import pytest

from toys import toy_trained, write_corpus
from untold.storage.model_directory import save_model

# None of these is needed for the commands below. torch imports more than a thousand modules by
# itself, which nobody can spare; these would come on top of them.
NEEDLESS = {
    *("datasets", "lxml", "matplotlib", "pandas", "pyarrow", "rich", "sacrebleu", "sympy"),
    *("thot", "tokenizers", "transformers"),
    *("torch._dynamo", "torch._inductor", "torch.utils.tensorboard"),
}
# Help needs these even less. typer imports pydantic to parse options, and we cannot prevent it.
COMPUTING = {"numpy", "safetensors", "sentencepiece", "jaxtyping", "torch"}
RUN = """
import sys
from untold.__main__ import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def modules_of(*arguments: object, text: str = "") -> set[str]:
    """The modules that a command has imported when it ends."""
    run = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, arguments)],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout, "the command did its work"
    return set(run.stderr.split())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("startup")
    corpus = write_corpus(folder / "corpus")
    trained = toy_trained(corpus, model={"separator": {"kind": "gdr"}})
    save_model(folder / "model", trained)
    return folder / "model"


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("translate", "--help")])
def test_help_imports_nothing_that_computes(arguments):
    loaded = modules_of(*arguments)
    assert "untold.cli" in loaded
    assert sorted(loaded & (NEEDLESS | COMPUTING)) == []


def test_translating_imports_only_what_translates(model):
    loaded = modules_of("translate", model, text="a b c\n")
    assert {"torch", "untold.translator"} <= loaded
    assert sorted(loaded & NEEDLESS) == []
    kept_out = ("untold.training", "untold.metrics", "untold.lab", "untold.checking")
    assert [name for name in loaded if name.startswith(kept_out)] == []


def test_a_needless_import_would_be_noticed(model):
    loaded = modules_of("translate", model, "--json", text="a b c\n")
    assert "untold.explain.page" in loaded
