"""`reference_precision` in a run of pytest: what is refused, what is told, and when a process is prepared for it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pytest_quant.backends import get_backend
from tests.support.in_process import run_here
from tests.support.third_party import register_backend

BACKEND = """
import os
from dataclasses import replace

from pytest_quant.readers import FLAG, Key
from pytest_quant.testing import NumpyBackend


class Rounding(NumpyBackend):
    offer = replace(
        NumpyBackend.offer,
        precisions={**NumpyBackend.offer.precisions, "fp16": (None,)},
        options={"tf32": Key("tf32", FLAG, "products may round their inputs")},
    )

    def before_loading(self, spec):
        os.environ["LOADED_FOR"] = spec.id
"""

SUITE = """
import os
import pytest
from pytest_quant import Dataset
from tests.support import models


@pytest.fixture
def quant_model(tmp_path):
    return models.select_first(tmp_path / "model.onnx")


@pytest.fixture
def quant_data():
    return Dataset.from_arrays(*models.samples(12))


def test_plain():
    assert "LOADED_FOR" not in os.environ


@pytest.mark.quant(backend="rounding", precision="fp32", reference_precision="fp16")
def test_half(quant):
    assert os.environ["LOADED_FOR"] == "rounding-fp32"
    assert quant.latency.reference_precision == "fp16"
    assert quant.reference.spec.precision == "fp32"


@pytest.mark.quant(backend="rounding", precision="fp32")
def test_exact(quant):
    assert quant.latency.tf32 is False
"""


@pytest.fixture(autouse=True)
def rounding(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A third party's backend for a device that has TF32 and FP16, and a suite for it."""
    pytester.mkdir("site")
    pytester.makepyfile(**{"site/rounding": BACKEND})
    register_backend(pytester.path / "site", "rounding", "rounding:Rounding")
    monkeypatch.syspath_prepend(pytester.path / "site")
    monkeypatch.setenv("LOADED_FOR", "nobody")
    monkeypatch.delenv("LOADED_FOR")
    pytester.makepyfile(test_it=SUITE)
    get_backend.cache_clear()
    yield
    get_backend.cache_clear()


def test_the_state_is_told_and_recorded(pytester: pytest.Pytester) -> None:
    """In the lines below the table, and in the record of each check."""
    result = run_here(pytester, "--quant-json=run.json", "--quant-max-time=0.5", "-k", "half or exact")
    result.assert_outcomes(passed=2, deselected=1)
    result.stdout.fnmatch_lines_random(["latency reference fp16: 1 check", "latency reference fp32, TF32 off: 1 check"])
    half, exact = json.loads((pytester.path / "run.json").read_text("utf-8"))["checks"]
    assert (half["reference"], exact["reference"]) == ("rounding-fp32", "rounding-fp32")
    found = [(one["latency"]["reference_precision"], one["latency"]["tf32"]) for one in (half, exact)]
    assert found == [("fp16", None), ("fp32", False)]


def test_the_process_is_prepared_for_what_will_run_only(pytester: pytest.Pytester) -> None:
    """Once the tests are chosen, and before the first of them."""
    run_here(pytester, "-k", "plain").assert_outcomes(passed=1, deselected=2)


def test_a_precision_that_is_unknown_or_not_offered_ends_the_collection(pytester: pytest.Pytester) -> None:
    """With what was meant, or what there is."""
    for precision, words in (
        ("fp61", "unknown reference_precision 'fp61'*did you mean 'fp16'"),
        ("bf16", "backend 'rounding' has no bf16 to compare latency with*allowed: fp32, tf32, fp16"),
    ):
        pytester.makepyfile(test_it=SUITE.replace('reference_precision="fp16"', f'reference_precision="{precision}"'))
        result = run_here(pytester)
        assert result.ret == pytest.ExitCode.INTERRUPTED
        told = " ".join(result.stdout.str().split())
        for part in words.split("*"):
            assert part in told, told
