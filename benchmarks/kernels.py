"""Kernels whose speed the guard watches, each beside a reference of torch that does the same work.

A further kernel is one more row of KERNELS: a function that makes what both work on and returns two
callables without arguments, ours and the reference. A call should take 0.2 to 20 milliseconds. The
guard compares ratios, so the reference must not change when ours does.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contenders import MarianTraining, UntoldTraining, marian, shape
from routing import make_inputs, ours
from searchers import HuggingFace, SourceBatch, Untold
from untold.decoding.beam_search import best_tokens
from untold.inference.linear import BYTES, LAYOUTS, PANELS
from untold.inference.model import prepare
from untold.models.backbone import LinearWeight
from untold.models.build import build_model
from untold.models.layers import Dropout, sigmoid_scores
from untold.models.routing import split_routing
from untold.models.routing_kernels import squash
from untold.training.losses.cross_entropy import label_smoothed_cross_entropy
from workload import small_workload, training_batches

__all__ = ["KERNELS", "Call", "Pair"]

Call = Callable[[], object]
Pair = tuple[Call, Call]  # ours, the reference
VOCABULARY = 2000


def _routing() -> Pair:
    inputs = make_inputs((16, 14, 14, 128, 64), "mlp")
    return lambda: inputs.run(ours), lambda: inputs.run(split_routing)


def _cross_entropy() -> Pair:
    states = torch.randn(256, 128, requires_grad=True)
    embedding = torch.randn(VOCABULARY, 128, requires_grad=True)
    labels = torch.randint(VOCABULARY, (256,))

    def reference() -> None:
        logits = states @ embedding.T
        F.cross_entropy(logits, labels, label_smoothing=0.1, reduction="sum").backward()

    def own() -> None:
        label_smoothed_cross_entropy(states, embedding, labels, 0.1)[0].backward()

    return own, reference


def _dropout() -> Pair:
    x = torch.randn(64, 16, 256, requires_grad=True)
    return _through(Dropout(0.1).train(), x), _through(nn.Dropout(0.1).train(), x)


def _best_tokens() -> Pair:
    log_probs = torch.randn(16, 4, 10_000).log_softmax(-1)
    return lambda: best_tokens(log_probs, 5), lambda: log_probs.topk(5)


def _sigmoid_scores() -> Pair:
    keys, query = (torch.randn(32, 20, 64, requires_grad=True) for _ in range(2))
    weight = torch.randn(64, requires_grad=True)

    def reference() -> None:
        hidden = (keys[:, None] + query[:, :, None]).sigmoid()
        (hidden @ weight).sum().backward()

    return lambda: sigmoid_scores(keys, query, weight).sum().backward(), reference


def _squash() -> Pair:
    s = torch.randn(16, 16, 6, 64, requires_grad=True)

    def reference(x: Tensor) -> Tensor:
        norm = x.norm(dim=-1, keepdim=True)
        return x * norm / (1 + norm.square())

    return _through(squash, s), _through(reference, s)


def _update() -> Pair:
    config, workload = shape("tiny", 0.1), small_workload(VOCABULARY)
    (batch,) = training_batches(workload, 512, 1)
    contenders = (
        UntoldTraining(config, VOCABULARY, workload),
        MarianTraining(config, VOCABULARY),
    )
    own, reference = ((lambda c=c: c.update(batch)) for c in contenders)
    return own, reference


def _beam_search() -> Pair:
    config = shape("tiny", 0.0)
    torch.manual_seed(1)
    model = build_model(config.model, (VOCABULARY, VOCABULARY), shared=True)
    job = SourceBatch([[7, 8, 9, 10, 11, 3]] * 4, 6)
    searchers = Untold(model, 4), HuggingFace("Marian", marian(config, VOCABULARY), 4)
    own, reference = ((lambda s=s: s.search(job)) for s in searchers)
    return own, reference


def _prepared_sentence() -> Pair:
    config = shape("tiny", 0.0)
    torch.manual_seed(1)
    model = build_model(config.model, (VOCABULARY, VOCABULARY), shared=True).eval()
    job = SourceBatch([[7, 8, 9, 10, 11, 3]], 6)
    searchers = Untold(prepare(model), 4), HuggingFace("Marian", marian(config, VOCABULARY), 4)
    own, reference = ((lambda s=s: s.search(job)) for s in searchers)
    return own, reference


def _prepared_linear(layout: str) -> Pair:
    weight, x = LinearWeight(torch.randn(10_000, 512), torch.randn(10_000)), torch.randn(4, 512)
    own = LAYOUTS[layout](weight)
    return lambda: own(x), lambda: F.linear(x, weight.weight, weight.bias)


def _through(function: Callable[[Tensor], Tensor], x: Tensor) -> Call:
    """Forward and backward."""
    return lambda: function(x).sum().backward()


KERNELS: dict[str, Callable[[], Pair]] = {
    "routing, against its split form": _routing,
    "cross entropy, against torch's": _cross_entropy,
    "dropout, against nn.Dropout": _dropout,
    "best tokens, against topk": _best_tokens,
    "sigmoid scores, against the formula": _sigmoid_scores,
    "squash, against the formula": _squash,
    "a tiny update, against Marian's": _update,
    "a tiny beam search, against Marian's": _beam_search,
    "one sentence prepared, against Marian's": _prepared_sentence,
    "weights in panels, against linear": lambda: _prepared_linear(PANELS),
    "8-bit weights, against linear": lambda: _prepared_linear(BYTES),
}
