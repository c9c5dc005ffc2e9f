"""`untold compare` compares runs on test sets."""

import json
from typing import Annotated

import typer

from untold.commands.options import (
    LARGEST_SEED,
    AsJson,
    Settings,
    number_option,
    refuse_options_of_other_metrics,
    say_outputs_if_stopped,
)
from untold.errors import UntoldError

__all__ = ["compare"]

Runs = Annotated[
    list[str], typer.Argument(help="RUN, NAME=RUN or NAME=RUN,RUN (seeds); the baseline first.")
]
Tests = Annotated[
    list[str], typer.Option(help="NAME=SOURCE,REFERENCE[,REFERENCE...]; may be given again.")
]
Tokenize = Annotated[
    str | None, typer.Option(help="BLEU's tokenizer, as in evaluate [the baseline's].")
]

Samples = Annotated[int, number_option(1, 1_000_000, "Trials of each significance test.")]


def compare(
    runs: Runs,
    test: Tests,
    metric: Annotated[str, typer.Option(help="bleu, chrf or multi-bleu.")] = "bleu",
    tokenize: Tokenize = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    samples: Samples = 1000,
    seed: Annotated[int, number_option(0, LARGEST_SEED, "Of the trials.")] = 1,
    rounds: Annotated[int, number_option(1, 1000, "Of the race for speed.")] = 5,
    no_speed: Annotated[bool, typer.Option("--no-speed", help="Leave speeds out.")] = False,
    settings: Settings = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare runs: sizes, speeds, scores on test sets, and significance against the first."""
    from untold.commands.compared_runs import ComparedRuns, read_families, read_tests, with_speeds
    from untold.evaluation.metrics import MetricOptions, make_metric
    from untold.evaluation.system_comparison import Trials, compare_outputs
    from untold.report.comparison_table import (
        comparison_markdown,
        comparison_record,
        print_comparison,
    )

    say_outputs_if_stopped()
    compared = ComparedRuns(read_families(runs), read_tests(test), tuple(settings or ()))
    _check_metric(metric)
    refuse_options_of_other_metrics([metric], tokenize=tokenize, lowercase=lowercase)
    options = MetricOptions(tokenize or compared.load_baseline().data.bleu_tokenize, lowercase)
    scorer = make_metric(metric, options).sacrebleu_metric()
    trials = Trials(samples, seed)
    comparison = compare_outputs(scorer, compared.translate(), compared.tests, trials)
    if not no_speed:
        comparison = with_speeds(comparison, compared, rounds)
    if as_json:
        print(json.dumps(comparison_record(comparison), ensure_ascii=False))
    elif markdown:
        print(comparison_markdown(comparison))
    else:
        print_comparison(comparison)


def _check_metric(name: str) -> None:
    """Refuses a metric that has no statistics for the significance tests."""
    from untold.metric_registry import metric_has, metrics_with

    if not metric_has(name, "sacrebleu_metric"):
        known = ", ".join(metrics_with("sacrebleu_metric"))
        raise UntoldError(f"unknown metric {name}; known: {known}")
