"""Tests of a suite that replaces Python's clocks are timed and dated by the real ones."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.integration.projects import CONFTEST, DATA
from tests.support import models
from tests.support.example import WITHOUT_PLUGINS

TEST = """
import time

import pytest
from freezegun import freeze_time


@pytest.fixture
def frozen():
    with freeze_time("2020-01-02 03:04:05"):
        yield


@pytest.fixture
def ticking():
    with freeze_time("2050-01-02 03:04:05", auto_tick_seconds=15):
        yield


@pytest.fixture
def patched(monkeypatch):
    for name in ("perf_counter", "perf_counter_ns", "monotonic", "time"):
        monkeypatch.setattr(time, name, lambda: 5)


@pytest.mark.quant(max_latency_ms=1e-6)
@pytest.mark.usefixtures("frozen")
def test_frozen(): pass


@pytest.mark.quant(max_latency_ms=1e-6)
@pytest.mark.usefixtures("ticking")
def test_ticking(): pass


@pytest.mark.quant(max_latency_ms=1e-6)
@pytest.mark.usefixtures("patched")
def test_patched(): pass
"""


def test_limits_on_speed_are_judged_by_the_real_clock(pytester: pytest.Pytester) -> None:
    """A run takes microseconds: neither 0 ns, which every limit would allow, nor the 15 s of a clock that jumps."""
    models.select_first(pytester.path / "model.onnx")
    pytester.makeconftest(CONFTEST.format(model="model.onnx", data=DATA))
    pytester.makepyfile(TEST)
    began = datetime.now(UTC)
    options = ("--quant-max-time=0.5", "--quant-pages=small", "--quant-diagnose-time=0", "--quant-json=run.json")
    result = pytester.runpytest_subprocess(*WITHOUT_PLUGINS, *options)
    result.assert_outcomes(failed=3)
    document = json.loads((pytester.path / "run.json").read_text("utf-8"))
    for check in document["checks"]:
        assert check["status"] == "FAIL"
        assert 1e-4 < check["latency"]["candidate_p50_ms"] < 1e3
    assert abs(datetime.fromisoformat(document["run"]["started_at"]) - began) < timedelta(minutes=10)
