"""A detector with boxes and scores in outputs of their own, from the mark to the verdict, on ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.integration.projects import output, run_marks
from tests.integration.test_several_outputs import quantize
from tests.support import models

CELLS = 4
SIDE = 4 * CELLS


def detector(path: Path, width: float = 8.0) -> Path:
    """Write a net (n, 1, 16, 16) -> boxes (n, 16, 4) and scores (n, 16, 2).

    An object fills a cell with its brightness, which is its width over 8 and whose sign is its class; `width` is what
    the net takes in place of 8.
    """
    graph = f"""(float[n, 1, {SIDE}, {SIDE}] x) => (float[n, 16, 4] boxes, float[n, 16, 2] scores) {{
        [see] mean = Conv<strides = [4, 4]>(x, w)
        [signs] bright = Relu(mean)
        [box_head] size = Conv(bright, to_size)
        [boxes_last] sizes = Transpose<perm = [0, 2, 3, 1]>(size)
        [box_list] offsets = Reshape(sizes, box_shape)
        [at_corners] boxes = Add(offsets, corners)
        [score_head] raw = Conv(bright, to_scores, bias)
        [scores_last] last = Transpose<perm = [0, 2, 3, 1]>(raw)
        [score_list] listed = Reshape(last, score_shape)
        [to_shares] scores = Sigmoid(listed)
    }}"""
    corner = np.array([[4 * (cell % CELLS), 4 * (cell // CELLS)] * 2 for cell in range(CELLS**2)], np.float32)
    to_size = np.zeros((4, 2, 1, 1), np.float32)
    to_size[2:] = width
    return models.parsed(
        path,
        graph,
        w=(np.stack([np.ones((1, 4, 4)), -np.ones((1, 4, 4))]) / 16).astype(np.float32),
        to_size=to_size,
        to_scores=(12 * np.eye(2)[:, :, None, None]).astype(np.float32),
        bias=np.full(2, -3.0, np.float32),
        corners=corner[None],
        box_shape=np.array([-1, 16, 4]),
        score_shape=np.array([-1, 16, 2]),
    )


CONFTEST = f"""
import numpy as np
import pytest
from pytest_quant import Dataset


@pytest.fixture
def quant_model():
    return "model.onnx"


@pytest.fixture
def quant_data():
    random = np.random.default_rng(0)
    images, labels = random.normal(0, 0.02, (140, 1, {SIDE}, {SIDE})).astype(np.float32), []
    for image in images:
        cells = random.choice({CELLS**2}, random.integers(1, 4), replace=False)
        names, widths = random.integers(0, 2, len(cells)), random.uniform(4, 8, len(cells))
        for cell, name, width in zip(cells, names, widths):
            top, left = 4 * (cell // {CELLS}), 4 * (cell % {CELLS})
            image[0, top : top + 4, left : left + 4] += (1 - 2 * name) * width / 8
        corners = np.stack([4 * (cells % {CELLS}), 4 * (cells // {CELLS})], axis=1)
        labels.append({{"boxes": np.concatenate([corners, corners + widths[:, None]], axis=1), "labels": names}})
    return Dataset.from_arrays(images, labels, calibration=40)


@pytest.fixture
def unlabelled(quant_data):
    return Dataset.from_arrays(quant_data.inputs, calibration=40)
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
    for words in ("map 100.00 -> 0.00 %; drop 100.00 pp", "match@0.5 100.00 -> 0.00 %", "max_drop[boxes]: "):
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
