"""The recurrent model in NumPy, word by word, as its formulas are written: a test's oracle.

No batches, no masks, no products made in advance: contexts are vectors here.
"""

from dataclasses import dataclass

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def gru(read, recur, x, state):
    """torch's GRU: `read` and `recur` are (weight, bias) of reset, update and new."""
    (w, b), (u, c) = read, recur
    d = len(state)
    x, own = w @ x + b, u @ state + c
    reset, keep = sigmoid(x[:d] + own[:d]), sigmoid(x[d : 2 * d] + own[d : 2 * d])
    new = np.tanh(x[2 * d :] + reset * own[2 * d :])
    return (1 - keep) * new + keep * state


@dataclass(frozen=True)
class Found:
    states: np.ndarray
    attention: np.ndarray
    logits: np.ndarray
    past: np.ndarray  # with the one before the first word
    future: np.ndarray


class NumpyRnmt:
    """Reads the parameters of a model by their names."""

    def __init__(self, model, layer=None, coverage="none"):
        self.p = {n: p.detach().numpy() for n, p in model.backbone.named_parameters()}
        self.source = self.p["source_embedding.embedding.weight"]
        self.target = self.p.get("target_embedding.embedding.weight", self.source)  # else shared
        self.output = self.p.get("output.weight", self.target)  # else tied
        self.scale = self.target.shape[1] ** 0.5
        self.layer = layer  # the future layer of a PFRNN
        self.coverage = coverage
        self.futures = {
            "gru": lambda context, future: self.cell("layers.future", context, future),
            "gru-o": self.subtract_before,
            "gru-i": self.subtract_inside,
        }

    def linear(self, name):
        return self.p[f"{name}.weight"], self.p[f"{name}.bias"]

    def cell(self, name, x, state):
        return gru(self.linear(f"{name}.read"), self.linear(f"{name}.recur"), x, state)

    def encode(self, ids):
        layer = [self.scale * self.source[i] for i in ids]
        number = 0
        while f"encoder.bias_ih_l{number}" in self.p:
            forward = self.direction(layer, f"l{number}")
            backward = self.direction(layer[::-1], f"l{number}_reverse")[::-1]
            layer = [np.concatenate(pair) for pair in zip(forward, backward, strict=True)]
            number += 1
        return np.stack(layer)

    def direction(self, inputs, suffix):
        read, recur = (
            (self.p[f"encoder.weight_{kind}_{suffix}"], self.p[f"encoder.bias_{kind}_{suffix}"])
            for kind in ("ih", "hh")
        )
        state, found = np.zeros(recur[0].shape[1]), []
        for x in inputs:
            state = gru(read, recur, x, state)
            found.append(state)
        return found

    def decode(self, h, prefix):
        weight, bias = self.linear("bridge")
        state = np.tanh(weight @ h.mean(0) + bias)
        steps, past, future = [], [np.zeros_like(state)], [state]
        covered = [np.zeros(10 if self.coverage == "neural" else 1) for _ in h]
        for word in prefix:
            e = self.scale * self.target[word]
            half = self.first(e, state, past[-1], future[-1])
            attention = self.attend(half, h, covered)
            covered = self.cover(covered, attention, h, state)
            context = attention @ h
            state = self.cell("second", context, half)
            readout = self.readout(e, state, context)
            if self.layer is not None:
                past.append(self.cell("layers.past", context, past[-1]))
                future.append(self.futures[self.layer](context, future[-1]))
                both = np.concatenate([past[-1], future[-1]])
                readout = readout + self.p["layers.readout.weight"] @ both
            steps.append((state, attention, self.output @ np.tanh(readout)))
        found = (np.stack(part) for part in zip(*steps, strict=True))
        return Found(*found, np.stack(past), np.stack(future))

    def first(self, e, state, past, future):
        """GRU_1 of the word and, in a PFRNN, of past and future."""
        weight, bias = self.linear("first.read")
        if self.layer is not None:
            e = np.concatenate([e, past, future])
            weight = np.concatenate([weight, self.p["layers.feed.weight"]], axis=1)
        return gru((weight, bias), self.linear("first.recur"), e, state)

    def subtract_before(self, context, future):
        weight, bias = self.linear("layers.future.recur")
        left = weight @ future + bias - self.p["layers.future.read.weight"] @ context
        m = np.tanh(self.p["layers.future.difference.weight"] @ left)
        return self.cell("layers.future.cell", m, future)

    def subtract_inside(self, context, future):
        (w, b), (u, c) = self.linear("layers.future.read"), self.linear("layers.future.recur")
        x, own, d = w @ context + b, u @ future + c, len(future)
        reset, update = sigmoid(x[:d] + own[:d]), sigmoid(x[d : 2 * d] + own[d : 2 * d])
        left = own[2 * d :] - reset * x[2 * d :]
        new = np.tanh(self.p["layers.future.difference.weight"] @ left)
        return update * future + (1 - update) * new

    def difference(self, side, more, less):
        left, right, word = (
            self.p[f"layers.heads.{side}.{name}.weight"] for name in ("left", "right", "word")
        )
        return np.tanh(word @ (left @ more - right @ less))

    def attend(self, half, h, covered):
        weight, bias = self.linear("attention.query")
        energies = []
        for word, coverage in zip(h, covered, strict=True):
            inner = weight @ half + bias + self.p["attention.key.weight"] @ word
            if self.coverage != "none":
                inner = inner + self.p["coverage.key.weight"] @ coverage
            energies.append(self.p["attention.weight"] @ np.tanh(inner))
        return softmax(np.array(energies))

    def cover(self, covered, attention, h, state):
        """C_t of every word, from C_t-1."""
        if self.coverage == "linguistic":
            weight, bias = self.linear("coverage.fertility")
            fertility = [2 * sigmoid(weight @ word + bias) for word in h]
            return [c + a / f for c, a, f in zip(covered, attention, fertility, strict=True)]
        if self.coverage == "neural":
            weight, bias = self.linear("coverage.cell.read")
            parts = (self.p["coverage.weight.weight"], weight, self.p["coverage.state.weight"])
            read = np.concatenate(parts, axis=1), bias
            inputs = [np.concatenate([[a], w, state]) for a, w in zip(attention, h, strict=True)]
            recur = self.linear("coverage.cell.recur")
            return [gru(read, recur, x, c) for x, c in zip(inputs, covered, strict=True)]
        return covered

    def readout(self, e, state, context):
        weight, bias = self.linear("state_readout")
        own = self.p["word_readout.weight"] @ e + weight @ state + bias
        return own + self.p["context_readout.weight"] @ context
