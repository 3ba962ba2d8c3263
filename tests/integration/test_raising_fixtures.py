"""A fixture of the user's that raises is told in a few lines, whichever of a check's it is."""

from __future__ import annotations

import pytest

from tests.integration.projects import output
from tests.support import models
from tests.support.in_process import run_here

RAISES = """
import numpy as np
import pytest
from pytest_quant import Dataset, Scores

@pytest.fixture
def quant_model():
    return "model.onnx"

@pytest.fixture
def data():
    return Dataset.from_arrays(np.load("missing.npz")["images"])

@pytest.fixture
def network():
    return 1 / 0

@pytest.fixture
def answers():
    raise RuntimeError("the server\\nis asleep")

@pytest.fixture
def away():
    pytest.skip("no data on this machine")

@pytest.mark.quant(data="data")
def test_data(): pass

@pytest.mark.quant(model="network")
def test_model(): pass

@pytest.mark.quant(scores="answers")
def test_scores(): pass

@pytest.mark.quant(data="away")
def test_away(): pass
"""


def test_what_a_fixture_raises_is_a_few_lines(pytester: pytest.Pytester) -> None:
    """Its first line, and the file of the whole, which names the line; a skip stays a skip."""
    models.select_first(pytester.path / "model.onnx")
    pytester.makepyfile(RAISES)
    result = run_here(pytester, "-rs")
    printed = output(result)
    result.assert_outcomes(errors=3, skipped=1)
    for said in (
        "the fixture 'data' raised",
        "FileNotFoundError: [Errno 2] No such file or directory: 'missing.npz'",
        "the fixture 'network' raised",
        "ZeroDivisionError: division by zero",
        "the fixture 'answers' raised",
        "RuntimeError: the server",
        "no data on this machine",
    ):
        assert said in printed
    assert len(printed.splitlines()) < 45
    assert "mmap_mode" not in printed
