"""A detector with boxes and scores in outputs of their own, from the mark to the verdict, on ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.integration.projects import output, run_marks
from tests.integration.test_several_outputs import quantize
from tests.support.detectors import SIDE, detector, pictures

CONFTEST = """
import numpy as np
import pytest
from pytest_quant import Dataset


@pytest.fixture
def quant_model():
    return "model.onnx"


@pytest.fixture
def quant_data():
    cells = np.load("cells.npz")
    labels = [
        {"boxes": boxes[names >= 0], "labels": names[names >= 0]}
        for boxes, names in zip(cells["boxes"], cells["names"])
    ]
    return Dataset.from_arrays(cells["images"], labels, calibration=40)


@pytest.fixture
def unlabelled():
    return Dataset.from_arrays(np.load("cells.npz")["images"], calibration=40)
"""

TWO = "output=['boxes', 'scores']"
SHRUNK = "quantized='shrunk.onnx'"
OWN = "Metric(lambda outputs, labels: outputs['scores'].max(axis=(1, 2)) * (outputs['boxes'].max() > 0), outputs='all')"
MARKS: dict[str, tuple[str, dict[str, str]]] = {
    "map": (f"{TWO}, metric='map', max_drop=5.0", {"max_drop": "PASS"}),
    "kept": (f"{TWO}, metric='match@0.5', max_drop=5.0, data='unlabelled'", {"max_drop": "PASS"}),
    "shrunk": (f"{TWO}, metric='map', max_drop=5.0, {SHRUNK}", {"max_drop": "FAIL"}),
    "lost": (f"{TWO}, metric='match@0.5', max_drop=5.0, data='unlabelled', {SHRUNK}", {"max_drop": "FAIL"}),
    "own": (f"metric=pytest_quant.{OWN}, max_drop=5.0", {"max_drop": "PASS"}),
    "heads": (
        "metric={'boxes': pytest_quant.Metric(lambda boxes, _: boxes.max(axis=(1, 2)), unit='px', name='edge')}, "
        f"max_drop={{'boxes': 0.5}}, {SHRUNK}",
        {"max_drop[boxes]": "FAIL"},
    ),
}
"""By name, the mark and the status of each verdict but that of the coverage."""

WRONG = {
    "one_output": (f"{TWO}, metric='top1', max_drop=1.0", "cannot read these labels"),
    "other_order": (
        "output=['scores', 'boxes'], metric='map', max_drop=1.0",
        "'scores' (100, 16, 2), 'boxes' (100, 16, 4)",
    ),
    "no_such_output": ("output=['boxes', 'score'], metric='map', max_drop=1.0", "did you mean 'scores'?"),
    "twice": ("output=['boxes', 'boxes'], metric='map', max_drop=1.0", "output names 'boxes' twice"),
}


def test_a_detector_fails_on_its_boxes(pytester: pytest.Pytester) -> None:
    """Quantized it keeps its boxes; with boxes of half the width average precision and kept boxes say so."""
    pictures(pytester.path / "cells.npz")
    detector(pytester.path / "model.onnx")
    detector(pytester.path / "half.onnx", 4.0)
    images = np.random.default_rng(1).uniform(-1, 1, (16, 1, SIDE, SIDE)).astype(np.float32)
    quantize(pytester.path / "half.onnx", pytester.path / "shrunk.onnx", images, "Conv")
    pytester.makeconftest(CONFTEST)
    marks = {name: mark for name, (mark, _) in MARKS.items()} | {name: mark for name, (mark, _) in WRONG.items()}
    result, checks = run_marks(pytester, {"twice": marks.pop("twice")})
    assert WRONG["twice"][1] in output(result)
    result, checks = run_marks(pytester, marks)
    assert _statuses(checks) == {name: statuses for name, (_, statuses) in MARKS.items()}
    text = output(result)
    # What no picture shows is left in doubt, and no drop is more than all.
    lost = "map 100.00 -> 0.00 %; drop 100.00 [96.38, 100.00] pp"
    for words in (lost, "match@0.5 100.00 -> 0.00 %", "max_drop[boxes]: "):
        assert words in text
    for name, (_, words) in WRONG.items():
        assert name == "twice" or words in checks[name]["message"]
    (row,) = checks["heads"]["accuracy"]["by_head"]
    assert (row["name"], row["metric"], row["unit"]) == ("boxes", "edge", "px")
    assert checks["kept"]["accuracy"]["reference"] == 100.0
    assert checks["lost"]["accuracy"]["candidate"] < 5.0


def _statuses(checks: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {
        name: {each["limit"]: each["status"] for each in checks[name]["verdicts"] if each["limit"] != "min_coverage"}
        for name in MARKS
    }
