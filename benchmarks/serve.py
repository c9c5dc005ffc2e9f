"""How soon does the server show something, and how much do many clients get done?

    python benchmarks/serve.py

It starts `untold serve` on a free port of this machine and ends it again. One client watches a
sentence of 15 words: the time to the first token, to the whole translation, and to the rest of one
whose beginning is typed. Then one client and many clients ask for translations as fast as they get
answers, in turns; only answers with status 200 count.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from race import Race, Table, write_json
from untold.embedded import embedded_model
from untold.lab.grammars.sampling import load_grammar

WORDS = 15
TYPED = 2 / 3  # of the translation, in the measurement of a typed beginning
# Milliseconds on a quiet machine of two cores, and how many times as much many clients get done.
LIMITS = {"first token": 60, "whole stream": 300, "rest of a typed beginning": 50}
RATIO = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("model", type=Path, nargs="?", default=embedded_model())
    parser.add_argument("--grammar", default="en-de", help="that the sentences come from")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=40, help="of each latency")
    parser.add_argument("--rounds", type=int, default=5, help="of one client and of many")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each round")
    parser.add_argument("--json", type=Path, help="also write the measurements here")
    options = parser.parse_args()
    texts = sentences(options.grammar)
    with serving(options.model) as port:
        latencies = asyncio.run(measure_latencies(port, texts, options.repeats))
        race, waits = asyncio.run(measure_clients(port, texts, options))
    tables = [latency_table(latencies), waiting_table(waits)]
    for table in tables:
        print(table.text(), end="\n\n")
    print(race.table())
    if options.json:
        write_json(options.json, [race], vars(options), tables)


def sentences(grammar: str) -> list[str]:
    """Sentences of the embedded grammar, those of 15 words first."""
    samples = islice(load_grammar(grammar).stream(1), 2000)
    texts = list(dict.fromkeys(" ".join(sample.source) for sample in samples))
    return sorted(texts, key=lambda text: abs(len(text.split()) - WORDS))[:256]


@contextlib.contextmanager
def serving(model: Path) -> Iterator[int]:
    """Runs the server; yields its port."""
    command = [sys.executable, "-m", "untold", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                sys.exit("the server did not start")
            yield int(line.strip().rpartition(":")[2])
        finally:
            process.terminate()
            process.wait(30)


@dataclass
class Client:
    """One connection, which is kept open; it costs less than any HTTP library."""

    port: int
    streams: Any = field(default=None)

    async def ask(self, path: str, body: dict[str, Any]) -> tuple[int, bytes, list[float]]:
        """Returns the status, the body, and the moments at which parts of it came."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        content = json.dumps(body).encode()
        writer.write(
            f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\n\r\n".encode()
            + content
        )
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head.split()[1])
        if b"content-length: " in head:
            length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
            return status, await reader.readexactly(length), []
        answer, moments = b"", []
        while size := int(await reader.readline(), 16):
            answer += await reader.readexactly(size)
            moments.append(time.perf_counter())
            await reader.readline()
        await reader.readline()
        return status, answer, moments


async def measure_latencies(
    port: int, texts: Sequence[str], repeats: int
) -> dict[str, list[float]]:
    """Milliseconds of one client that is alone."""
    client, latencies = Client(port), {name: [] for name in LIMITS}
    for number, text in enumerate(texts[: repeats + 1]):
        began = time.perf_counter()
        status, events, moments = await client.ask("/v1/stream", {"text": text})
        if status != 200:
            sys.exit(f"status {status}: {events.decode()}")
        last = json.loads(events.decode().strip().rpartition("data: ")[2])
        words = last["translation"]["text"].split()
        typed = " ".join(words[: round(TYPED * len(words))])
        resumed = time.perf_counter()
        await client.ask("/v1/translate", {"texts": [text], "prefixes": [typed]})
        rest = time.perf_counter() - resumed
        if number:  # the first one warms up
            whole, first = moments[-1] - began, moments[1] - began
            for name, seconds in zip(LIMITS, (first, whole, rest), strict=True):
                latencies[name].append(1000 * seconds)
    return latencies


@dataclass
class Load:
    """What some clients got done in one round."""

    done: int = 0
    refused: int = 0
    seconds: float = 0.0
    waits: list[float] = field(default_factory=list)  # milliseconds for each answer


async def measure_clients(
    port: int, texts: Sequence[str], options: Namespace
) -> tuple[Race, dict[int, list[Load]]]:
    """One client and many, in turns; a race counts the seconds of a thousand translations."""
    loads: dict[int, list[Load]] = {options.clients: [], 1: []}
    for number in range(options.rounds + 1):
        for clients, rounds in loads.items():
            load = await press(port, texts, clients, options.seconds)
            if number:  # the first round warms up
                rounds.append(load)
    seconds = {
        f"{clients} client{'s' if clients > 1 else ''}": [
            1000 * load.seconds / max(load.done, 1) for load in rounds
        ]
        for clients, rounds in loads.items()
    }
    return Race("Translations of many clients and of one", seconds, {"sentences": 1000}), loads


async def press(port: int, texts: Sequence[str], clients: int, seconds: float) -> Load:
    """Lets clients ask as fast as they get answers, for some seconds."""
    load, began = Load(), time.perf_counter()
    await asyncio.gather(*(_ask_on(port, texts, k, began + seconds, load) for k in range(clients)))
    load.seconds = time.perf_counter() - began
    return load


async def _ask_on(port: int, texts: Sequence[str], first: int, end: float, load: Load) -> None:
    client, turns = Client(port), cycle([*texts[first:], *texts[:first]])
    while (began := time.perf_counter()) < end:
        status, _, _ = await client.ask("/v1/translate", {"texts": [next(turns)]})
        if status == 200:
            load.done += 1
            load.waits.append(1000 * (time.perf_counter() - began))
        else:
            load.refused += 1
            await asyncio.sleep(0.05)
    if client.streams is not None:
        client.streams[1].close()


def latency_table(latencies: dict[str, list[float]]) -> Table:
    rows = [[name, *_percentiles(times), LIMITS[name]] for name, times in latencies.items()]
    columns = ["milliseconds of", "p50", "p95", "p50 at most, quiet"]
    return Table("One client that watches a sentence of 15 words", columns, rows)


def waiting_table(loads: dict[int, list[Load]]) -> Table:
    rows = []
    for clients, rounds in loads.items():
        speed = statistics.median(load.done / load.seconds for load in rounds)
        waits = [wait for load in rounds for wait in load.waits]
        refused = sum(load.refused for load in rounds)
        rows.append([str(clients), speed, *_percentiles(waits), refused])
    ratio = rows[0][1] / rows[1][1]
    title = f"Many clients get {ratio:.2f} x as much done as one; at least {RATIO:g} x is the aim"
    return Table(title, ["clients", "sentences/s", "p50 ms", "p95 ms", "refused"], rows)


def _percentiles(values: Sequence[float]) -> list[float]:
    cuts = statistics.quantiles(values, n=20)
    return [statistics.median(values), cuts[-1]]


if __name__ == "__main__":
    main()
