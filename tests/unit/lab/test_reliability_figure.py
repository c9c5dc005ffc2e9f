"""The reliability diagram: stable bytes, and what it shows."""

import re

from untold.lab.figures import reliability_diagram
from untold.storage.calibration import ReliabilityBin

BINS = [ReliabilityBin(900, 0.02, 0.03), ReliabilityBin(100, 0.8, 0.7)]


def test_a_diagram_is_a_picture_with_the_same_bytes_every_time() -> None:
    png = reliability_diagram(BINS, 0.019, "png")
    assert png.startswith(b"\x89PNG") and png == reliability_diagram(BINS, 0.019, "png")
    assert png != reliability_diagram(BINS[:1], 0.019, "png")
    svg = reliability_diagram(BINS, 0.019, "svg").decode()
    assert svg == reliability_diagram(BINS, 0.019, "svg").decode()
    shown = re.sub(r"<!-- (.*?) -->", r"\1", svg)
    assert "1,000 words, expected calibration error 0.0190" in shown


def test_no_bins_are_an_empty_diagram() -> None:
    assert reliability_diagram([], 0.0, "png").startswith(b"\x89PNG")
