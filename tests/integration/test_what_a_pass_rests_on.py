"""Engines that only seemed right: each passed a limit that it does not hold, on real engines and labelled data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.integration.projects import run_project
from tests.integration.test_several_outputs import quantize
from tests.support import models

CONFTEST = """
import numpy as np
import pytest
from pytest_quant import Dataset


def drawn(n, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 8)).astype(np.float32)
    return x, x[:, :4].argmax(axis=1)


@pytest.fixture
def quant_model():
    return "model.onnx"


@pytest.fixture
def quant_data():
    return Dataset.from_arrays(*drawn(400), calibration=40)


@pytest.fixture
def skewed():
    x, y = drawn(4000)
    kept = np.sort(np.concatenate([np.flatnonzero(y == 0)[:380], np.flatnonzero(y)[:20]]))
    return Dataset.from_arrays(x[kept], y[kept], calibration=drawn(40, seed=1)[0])


@pytest.fixture
def copies():
    x, y = drawn(2)
    return Dataset.from_arrays(np.tile(x, (150, 1)), np.tile(y, 150), calibration=drawn(40, seed=1)[0])
"""

TESTS = """
import numpy as np
import pytest
from pytest_quant import Metric


def writes(outputs, labels):
    right = outputs.argmax(axis=1) == labels
    np.rint(outputs, out=outputs)
    labels.sort()
    return right


def looks(outputs, labels):
    return outputs.argmax(axis=1) == labels


@pytest.mark.quant(metric=Metric(writes), max_drop=5)
def test_writes(): pass


@pytest.mark.quant(metric=Metric(looks), max_drop=5)
def test_looks(): pass


@pytest.mark.quant(quantized="commonest.onnx", data="skewed", max_drop=8, min_ratio=0.9, min_accuracy=90)
def test_commonest(): pass


@pytest.mark.quant(quantized="good.onnx", data="skewed", max_drop=2, min_ratio=0.9, min_accuracy=97)
def test_honest(): pass


@pytest.mark.quant(quantized="other_head.onnx", min_agreement=90)
def test_heads(): pass


@pytest.mark.quant(quantized="other_head.onnx", min_agreement=90, output="a")
def test_one_head(): pass


@pytest.mark.quant(quantized="good.onnx", min_agreement=90)
def test_good_heads(): pass


@pytest.mark.quant(data="copies", max_drop=0, min_agreement=99.5)
def test_copies(): pass


@pytest.mark.quant(quantized="commonest.onnx", min_accuracy=90, min_reference_accuracy=90)
def test_own_score(): pass
"""


def heads(path: Path, of_first: float = 1.0, seed: int = 1) -> Path:
    """Write a model of scores a (n, 4), which are the first inputs, and scores b (n, 4) by weights of a seed.

    `of_first` is what the first head is multiplied by before 9 is added to its class 0.
    """
    graph = f"""(float[n, {models.FEATURES}] x) => (float[n, 4] a, float[n, 4] b) {{
        raw = MatMul(x, to_a)
        a = Add(raw, bias)
        b = MatMul(x, to_b)
    }}"""
    bias = np.array([0.0 if of_first == 1.0 else 9.0, 0, 0, 0], np.float32)
    to_b = np.random.default_rng(seed).normal(size=(models.FEATURES, 4)).astype(np.float32)
    return models.parsed(
        path, graph, to_a=np.float32(of_first) * np.eye(models.FEATURES, 4, dtype=np.float32), to_b=to_b, bias=bias
    )


def test_each_is_seen(pytester: pytest.Pytester) -> None:
    """The status of each verdict, and that of an honest engine beside it."""
    heads(pytester.path / "model.onnx")
    for name, changed in {"good": {}, "commonest": {"of_first": 0.1}, "other_head": {"seed": 2}}.items():
        quantize(heads(pytester.path / "float.onnx", **changed), pytester.path / f"{name}.onnx")  # type: ignore[arg-type]
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_marks=TESTS)
    _, listed = run_project(pytester)
    checks: dict[str, dict[str, Any]] = {
        each["nodeid"].partition("::test_")[2].partition("[")[0]: each for each in listed
    }
    found = {
        name: {each["limit"]: each["status"] for each in check["verdicts"] if each["limit"] != "min_coverage"}
        for name, check in checks.items()
    }
    assert found == {
        "writes": {"max_drop": "PASS"},
        "looks": {"max_drop": "PASS"},
        "commonest": {"max_drop": "INCONCLUSIVE", "min_ratio": "INCONCLUSIVE", "min_accuracy": "INCONCLUSIVE"},
        "honest": {"max_drop": "PASS", "min_ratio": "PASS", "min_accuracy": "PASS"},
        "heads": {"min_agreement": "FAIL"},
        "one_head": {"min_agreement": "PASS"},
        "good_heads": {"min_agreement": "PASS"},
        "copies": {"max_drop": "INCONCLUSIVE", "min_agreement": "INCONCLUSIVE"},
        "own_score": {"min_accuracy": "FAIL", "min_reference_accuracy": "PASS"},
    }
    figures = ("sqnr_db", "cosine", "max_abs_error", "agreement_pct", "reference", "candidate")
    wrote, looked = (tuple(checks[name]["accuracy"][figure] for figure in figures) for name in ("writes", "looks"))
    assert wrote == looked
    sqnr_db = checks["one_head"]["accuracy"]["by_output"]["b"]["sqnr_db"]
    assert f"no limit reads output 'b' (SQNR {sqnr_db:.4g} dB)" in checks["one_head"]["notes"]
    assert not [note for note in checks["heads"]["notes"] if note.startswith("no limit reads")]
    assert "copies: 300 samples, 2 of them different" in checks["copies"]["notes"]
    (reason,) = [each["reason"] for each in checks["heads"]["verdicts"] if each["limit"] == "min_agreement"]
    assert reason.endswith("; output 'b' is the worst of 2")
