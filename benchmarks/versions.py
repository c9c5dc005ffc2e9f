"""Races two versions of untold, each in a process of its own, job by job in turns.

    git worktree add ../before COMMIT
    python benchmarks/versions.py ../before/src src --rounds 20

Only the public API is used (train, load, translate), so any two versions can race. The jobs are
single sentences and batches, greedy and with a beam, and updates; each with a plain Transformer and
with past and future. Times are of the processor, one thread; a ratio above 1 means that the second
version is slower.

One version may race against itself in another environment:

    python benchmarks/versions.py src src --before THP_MEM_ALLOC_ENABLE=0 \\
        --after THP_MEM_ALLOC_ENABLE=1 --preset base
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

JOBS = ("one greedy", "one beam 4", "batch beam 4", "updates")
KINDS = ("none", "gdr")
UPDATES, SENTENCES = 12, 64
CONFIG = {
    "tokenizer": {"size": 2000},
    "train": {
        "steps": UPDATES,
        "batch_tokens": 2048,
        "validate_every": 1000,
        "validate_bleu": False,
        "best_by": "loss",
        "save_every": 1000,
        "log_every": UPDATES,
        "threads": 1,
        "device": "cpu",
    },
    "decode": {"max_length": 40},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("first", type=Path, help="the src directory of one version")
    parser.add_argument("second", type=Path, help="the src directory of the other")
    parser.add_argument("--before", action="append", default=[], help="NAME=VALUE, for the first")
    parser.add_argument("--after", action="append", default=[], help="NAME=VALUE, for the second")
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=JOBS)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    os.environ["UNTOLD_RACE_PRESET"] = options.preset
    versions = ((options.first, options.before), (options.second, options.after))
    with tempfile.TemporaryDirectory() as directory:
        workers = [
            start(path.resolve(), Path(directory) / str(number), changes)
            for number, (path, changes) in enumerate(versions)
        ]
        print(f"{'':26}{'before':>10}{'after':>10}   after / before")
        for kind in KINDS:
            for job in options.jobs:
                race(workers, f"{kind}|{job}", options.rounds)
        for worker in workers:
            worker.kill()


def start(source: Path, directory: Path, changes: list[str]) -> "subprocess.Popen[str]":
    """A process that imports untold from `source` and works on demand."""
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    environment |= dict(change.split("=", 1) for change in changes)
    worker = subprocess.Popen(
        [sys.executable, __file__, "--work", str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    if ask(worker, "") != source.name:
        sys.exit(f"{source}: does not hold untold")
    return worker


def ask(worker: "subprocess.Popen[str]", job: str) -> float | str:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(job + "\n")
    worker.stdin.flush()
    if not (line := worker.stdout.readline()):
        sys.exit(f"a worker died at {job!r}: run it by hand to see why")
    return json.loads(line)


def race(workers: list["subprocess.Popen[str]"], job: str, rounds: int) -> None:
    seconds: list[list[float]] = [[], []]
    for number in range(rounds):
        order = (0, 1) if number % 2 else (1, 0)
        for which in order:
            seconds[which].append(float(ask(workers[which], job)))
    ratios = [after / before for before, after in zip(*seconds, strict=True)]
    middle = [statistics.median(each) * 1000 for each in seconds]
    spread = statistics.quantiles(ratios, n=4)
    print(
        f"{job:26}{middle[0]:>8.1f}ms{middle[1]:>8.1f}ms   {statistics.median(ratios):.3f} "
        f"(half of the rounds: {spread[0]:.3f} to {spread[2]:.3f})",
        flush=True,
    )


def work(directory: Path) -> None:
    """Do jobs in this process, and print the processor's seconds of each."""
    import time

    import untold
    from untold.lab.grammars.sampling import write_sample

    sys.stdin.readline()
    corpus = directory / "corpus"
    write_sample("en-de", 2000, 7, corpus)
    texts = (corpus / "train.en").read_text().split("\n")[:SENTENCES]
    configs = {kind: settings(corpus, kind) for kind in KINDS}
    runs = {}
    for kind, config in configs.items():
        untold.train(config, untold.RunOptions(directory / kind))
        runs[kind] = untold.load(directory / kind)
    print(json.dumps(Path(untold.__file__).parents[1].name), flush=True)
    for number, line in enumerate(sys.stdin):
        kind, job = line.strip().split("|")
        began = time.process_time()
        if job == "updates":
            untold.train(configs[kind], untold.RunOptions(directory / f"{kind}-{number}"))
        else:
            beam = 1 if job.endswith("greedy") else 4
            chosen = texts[5:8] if job.startswith("one") else texts
            translator = runs[kind].with_decoding(beam=beam, min_length=20, max_length=25)
            for each in [[text] for text in chosen] if job.startswith("one") else [chosen]:
                translator.translate(each)
        print(json.dumps(time.process_time() - began), flush=True)


def settings(corpus: Path, separator: str) -> "object":
    from untold.config import parse_config

    data = {
        "root": str(corpus),
        "train": {"source": "train.en", "target": "train.de"},
        "valid": {"source": "dev.en", "target": "dev.de"},
    }
    model = {"preset": os.environ["UNTOLD_RACE_PRESET"], "separator": {"kind": separator}}
    return parse_config(CONFIG | {"data": data, "model": model})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(Path(sys.argv[2]))
    else:
        main()
