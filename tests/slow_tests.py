"""Which tests are slow: `make test` leaves them out, `make test-all` runs them.

A file is slow as a whole, or but for the cases whose id matches. Only what costs much is listed: a
product of all systems by all forms, processes that are started and stopped, a browser.
"""

import re

SLOW = {
    "conformance/test_recipe.py::test_it_passes_the_conformance_battery",
    "browser/",
    "fuzz/",
    "e2e/test_copying.py",
    "e2e/test_demo.py",
    "e2e/test_full_disk.py",
    "e2e/test_going_on.py",
    "e2e/test_model_pages.py",
    "e2e/test_paper_data.py::test_the_recipe",
    "e2e/test_progress.py::test_a_terminal_shows_bars",
    "e2e/test_served_page.py",
    "e2e/test_signals.py",
    "e2e/test_terminal.py",
    "e2e/test_training.py",
    "unit/benchmarks/test_runs.py",
    "unit/benchmarks/test_train_peers.py",
    "unit/huggingface/test_shared_runs.py",
    "unit/training/test_sharding.py::test_two_processes",
}
# The cases of these that stay fast, by what their ids hold.
FAST_CASES = {
    "golden/test_behaviour.py::test_losses_and": r"\[(transformer|transformer-gdr|rnmt)\]",
    "test_items.py::test_an_item_is_made": r"\[(figure4|table3|separation)\]",
}
# Of the families of Hugging Face models Marian and T5 are always tried, and all of them by these.
FAMILIES = re.compile(
    r"[\[-](marian, two vocabularies|bart|t5 v1.1|mbart|mbart50|m2m100|nllb)[\]-]"
)
WITH_FAMILIES = ("unit/huggingface/", "conformance/test_huggingface.py")
ALL_FAMILIES = (
    "test_huggingface_tokenizer.py",
    "test_before_training_its_logits_are_those",
    "test_greedy_search_is_that_of_generate",
)


def is_slow(node_id: str) -> bool:
    """Says if a test is left out of `make test`; ids begin with `tests/`."""
    if any(part in node_id for part in SLOW):
        return True
    if any(part in node_id for part in WITH_FAMILIES) and FAMILIES.search(node_id):
        return not any(part in node_id for part in ALL_FAMILIES)
    return any(
        part in node_id and not re.search(fast, node_id) for part, fast in FAST_CASES.items()
    )
