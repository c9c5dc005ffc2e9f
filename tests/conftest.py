"""With UNTOLD_TYPECHECK=1 every test runs with the shapes and types of untold's signatures checked.

jaxtyping binds the arguments of each call to know the shapes of its arrays. That costs more than a
small function itself, and those of untold.corpus are called by the hundred thousand: its modules
that know no shapes are checked by beartype alone.
What untold measures of this machine goes to a directory of the tests, not to the user's.
"""

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path

from beartype import BeartypeConf
from beartype.claw import beartype_package
from jaxtyping import install_import_hook

_cache = tempfile.TemporaryDirectory(prefix="untold-tests-")  # lives as long as this module
os.environ["XDG_CACHE_HOME"] = _cache.name


def _modules_with_shapes() -> list[str]:
    """Names the parts of untold, and of its corpus those that use jaxtyping; imports none."""
    package = Path(find_spec("untold").origin).parent
    parts = [path for path in package.iterdir() if path.stem not in ("__init__", "corpus")]
    corpus = [
        path
        for path in package.joinpath("corpus").rglob("*.py")
        if "from jaxtyping import" in path.read_text(encoding="utf-8")
    ]
    return [
        ".".join(path.relative_to(package.parent).with_suffix("").parts)
        for path in [*parts, *corpus]
    ]


if os.environ.get("UNTOLD_TYPECHECK") == "1":
    beartype_package("untold.corpus", conf=BeartypeConf(claw_is_pep526=False))
    install_import_hook(_modules_with_shapes(), "beartype.beartype")
