"""Is this version faster than another? Two versions of untold race, job by job in turns.

    git worktree add ../before COMMIT
    python benchmarks/versions.py ../before/src src --rounds 20

Each runs in a process of its own. Only the public API is used (train, load, translate), so any two
versions can race. The jobs are single sentences and batches, greedy and with a beam, and updates;
each with a plain Transformer and with past and future. Times are of the processor, one thread;
figures are the speed of the second version as a share of the first one's.

One version may race against itself in another environment:

    python benchmarks/versions.py src src --before THP_MEM_ALLOC_ENABLE=0 \\
        --after THP_MEM_ALLOC_ENABLE=1 --preset base
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

# The workers import another version of untold: nothing of this one is imported before they do.
JOBS = ("one greedy", "one beam 4", "batch beam 4", "updates")
KINDS = {"none": "plain", "gdr": "past and future"}
UPDATES, SENTENCES = 12, 64
BEFORE, AFTER = "before", "after"
CONFIG = """
[data]
root = "{corpus}"
train = {{ source = "train.en", target = "train.de" }}
valid = {{ source = "dev.en", target = "dev.de" }}
[tokenizer]
size = 2000
[model]
preset = "{preset}"
[model.separator]
kind = "{kind}"
[train]
steps = {updates}
batch_tokens = 2048
validate_every = 1000
best_by = "loss"
save_every = 1000
log_every = {updates}
threads = 1
device = "cpu"
[decode]
max_length = 40
"""


def main() -> None:
    from race import Race, Worker, write_json

    options = _options()
    versions = ((BEFORE, options.first, options.before), (AFTER, options.second, options.after))
    races = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_corpus(directory / "corpus", options.first)
        workers = {}
        for name, source, changes in versions:
            (directory / name).mkdir()
            command = [sys.executable, __file__, "--work", str(directory / name), options.preset]
            worker = stack.enter_context(Worker(command, environment(source, changes)))
            if (found := worker.receive()) != str(source.resolve()):
                sys.exit(f"{source}: does not hold untold, which came from {found}")
            workers[name] = worker
        for kind, meaning in KINDS.items():
            for job in options.jobs:
                line = f"{kind}|{job}"
                seconds: dict[str, list[float]] = {name: [] for name in workers}
                for number in range(options.rounds):
                    for name in sorted(workers, reverse=number % 2 == 0):
                        seconds[name].append(workers[name].ask(line))
                races.append(Race(f"{meaning}, {job}", seconds, {"jobs": 1}))
                print(races[-1].table(relative=True), flush=True)
    if options.json:
        write_json(options.json, races, vars(options) | {"relative": True})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("first", type=Path, help="the src directory of one version")
    parser.add_argument("second", type=Path, help="the src directory of the other")
    parser.add_argument("--before", action="append", default=[], help="NAME=VALUE, for the first")
    parser.add_argument("--after", action="append", default=[], help="NAME=VALUE, for the second")
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=JOBS)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path, help="also write the measurements here")
    return parser.parse_args()


def environment(source: Path, changes: list[str]) -> dict[str, str]:
    """The variables of a process that imports untold from `source`."""
    own = {"PYTHONPATH": str(source.resolve()), "OMP_NUM_THREADS": "1"}
    return os.environ | own | dict(change.split("=", 1) for change in changes)


def write_corpus(folder: Path, source: Path) -> None:
    """The same corpus for both."""
    command = [sys.executable, "-m", "untold", "sample", "en-de", "--pairs", "2000", "--seed", "7"]
    subprocess.run(
        [*command, "--out", str(folder)],
        env=environment(source, []),
        check=True,
        stdout=subprocess.DEVNULL,
    )


def work(directory: Path, preset: str) -> None:
    """Does jobs in this process, and answers with the processor's seconds of each."""
    import untold

    corpus = directory.parent / "corpus"
    texts = (corpus / "train.en").read_text(encoding="utf-8").split("\n")[:SENTENCES]
    configs, runs = {}, {}
    for kind in KINDS:
        path = directory / f"{kind}.toml"
        settings = CONFIG.format(corpus=corpus, preset=preset, kind=kind, updates=UPDATES)
        path.write_text(settings, encoding="utf-8")
        configs[kind] = untold.load_config(path)
        untold.train(configs[kind], untold.RunOptions(directory / kind))
        runs[kind] = untold.load(directory / kind)
    print(json.dumps(str(Path(untold.__file__).parents[1])), flush=True)
    for number, line in enumerate(sys.stdin):
        kind, job = line.strip().split("|")
        began = time.process_time()
        if job == "updates":
            untold.train(configs[kind], untold.RunOptions(directory / f"{kind}-{number}"))
        else:
            beam = 1 if job.endswith("greedy") else 4
            translator = runs[kind].with_decoding(beam=beam, min_length=20, max_length=25)
            groups = [[text] for text in texts[5:8]] if job.startswith("one") else [texts]
            for group in groups:
                translator.translate(group)
        print(json.dumps(time.process_time() - began), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(Path(sys.argv[2]), sys.argv[3])
    else:
        main()
