"""Counts and measures what the service does, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class ServiceMetrics:
    """Counts of one server; labels have few values, none of which comes from a user."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "untold_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self._latency = Histogram(
            "untold_request_seconds",
            "Time from the head of a request to the end of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._waiting = Gauge("untold_queue_depth", "Requests that wait.", registry=registry)
        self._streams = Gauge("untold_streams", "Streams that run.", registry=registry)
        self._batches = Histogram(
            "untold_batch_items",
            "Texts, pairs or segments that were computed together.",
            ["kind"],
            buckets=_SIZES,
            registry=registry,
        )
        self._steps = Counter("untold_steps", "Steps that searches made.", registry=registry)
        self._tokens = Counter(
            "untold_tokens", "Tokens of sources and of translations.", ["side"], registry=registry
        )
        self._abandoned = Counter(
            "untold_abandoned", "Requests that stopped with their client.", registry=registry
        )
        self._reloads = Counter(
            "untold_reloads", "Times that models were loaded again.", ["result"], registry=registry
        )
        for side in ("source", "target"):
            self._tokens.labels(side)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Counts an answer."""
        self._requests.labels(route, str(status)).inc()
        self._latency.labels(route).observe(seconds)

    def waiting(self, number: int) -> None:
        """Notes how many requests wait."""
        self._waiting.set(number)

    def streams(self, number: int) -> None:
        """Notes how many streams run."""
        self._streams.set(number)

    def batch(self, kind: str, items: int) -> None:
        """Counts a call of a model, and how many items it has."""
        self._batches.labels(kind).observe(items)

    def step(self) -> None:
        """Counts a step of a search."""
        self._steps.inc()

    def tokens(self, source: int, target: int) -> None:
        """Counts the tokens of a translation."""
        self._tokens.labels("source").inc(source)
        self._tokens.labels("target").inc(target)

    def abandoned(self, requests: int) -> None:
        """Counts requests whose work was broken off."""
        self._abandoned.inc(requests)

    def reload(self, result: str) -> None:
        """Counts a reload, which is "ok" or "failed"."""
        self._reloads.labels(result).inc()

    def text(self) -> bytes:
        """Writes all of them as Prometheus reads them."""
        return generate_latest(self.registry)
