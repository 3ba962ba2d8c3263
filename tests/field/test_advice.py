"""Advice in reports was untrue, or led to the same error: followed, it brings what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.integration.projects import run_marks
from tests.support import models

CONFTEST = """
import numpy as np
import pytest
from pytest_quant import Dataset


@pytest.fixture
def ids():
    return Dataset.from_arrays({"ids": np.random.default_rng(2).integers(0, 500, size=(40, 8))}, calibration=20)
"""


def tied(path: Path) -> None:
    """Write a language model whose head is the table of its embedding turned: 32 000 of its floats are that table."""
    rng = np.random.default_rng(2)
    table, middle = ((rng.normal(size=shape) / 8).astype(np.float32) for shape in ((500, 64), (64, 64)))
    graph = """(int64[n, t] ids) => (float[n, t, 500] y) {
        [embed] e = Gather(table, ids) [middle] m = MatMul(e, w) [tanh] h = Tanh(m)
        [turn] tt = Transpose<perm = [1, 0]>(table) [lm_head] y = MatMul(h, tt)
    }"""
    models.parsed(path, graph, table=table, w=middle)


def test_an_embedding_that_stays_in_float_is_named_and_quantized(pytester: pytest.Pytester) -> None:
    """The INT8 file is larger than FP32, its table is named, and what is pasted makes it as small as promised."""
    pytester.makeconftest(CONFTEST)
    tied(pytester.path / "tied.onnx")
    limits = "model='tied.onnx', data='ids', max_size_mb=0.09"
    marks = {"int8": f"{limits}, scheme='dynamic'", "int4": f"{limits}, precision='int4', scheme='weight-only'"}
    result, before = run_marks(pytester, marks)
    hints = {name: check["hints"][0] for name, check in before.items()}
    for name, check in before.items():
        assert check["resources"]["size_mb"] > check["resources"]["reference_size_mb"]
        assert hints[name]["paste"] == "options={'op_types': ['MatMul', 'Gather']}"
        assert ", which repairs it" in hints[name]["text"]
        assert any("0.128 MB for embed (Gather)" in hint["text"] for hint in check["hints"])
    result.stdout.fnmatch_lines(["*the engine is larger than FP32: that takes 0.1447 MB"])
    _, after = run_marks(pytester, {name: f"{marks[name]}, {hint['paste']}" for name, hint in hints.items()})
    for name, check in after.items():
        assert check["status"] == "PASS"
        assert check["resources"]["size_mb"] == pytest.approx(hints[name]["after"])
