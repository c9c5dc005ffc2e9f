"""Lists the commands of `untold`, one module each, in the order of --help."""

from collections.abc import Callable, Mapping

from untold.commands.adopt import adopt, import_model
from untold.commands.align import align
from untold.commands.check import check
from untold.commands.clean import clean
from untold.commands.config import config
from untold.commands.evaluate import compare, evaluate
from untold.commands.explain import explain
from untold.commands.export import export
from untold.commands.models import average, calibrate, info, score
from untold.commands.reproduce import demo, reproduce, sample, sheet
from untold.commands.serve import serve
from untold.commands.train import train
from untold.commands.translate import translate

COMMANDS: tuple[Callable[..., None], ...] = (
    *(train, translate, serve, check, score, evaluate, align),
    *(explain, adopt, calibrate, clean, sheet, average, export, info, sample, demo, reproduce),
    config,
)
# What earlier versions had: they take whatever they are given, and say what to write instead.
FORMER_COMMANDS: Mapping[str, Callable[..., None]] = {"compare": compare, "import": import_model}
