"""What a check tells while it lasts, with a cold cache and with a warm one, and for whom it waits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.backends import get_backend
from pytest_quant.cache import Cache
from pytest_quant.measure.lock import FOLDER_VARIABLE
from pytest_quant.session import Session
from pytest_quant.spec import Check, Dataset, EngineSpec, LatencyPlan, Limits, Model
from tests.support import models
from tests.support.quiet_steps import QuietSteps
from tests.support.third_party import register_backend
from tests.unit.data.samples import numbers

HOLD = """
import sys
from pytest_quant.measure.lock import DeviceLocks
with DeviceLocks(print).exclusive("cpu"):
    print("held", flush=True)
    sys.stdin.readline()
"""


class Told:
    """A few samples; each pass tells in which step it was begun."""

    def __init__(self, steps: QuietSteps) -> None:
        self._steps = steps
        self.during: list[str] = []

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        """Start a pass."""
        self.during.append(" | ".join(self._steps.now))
        for row in numbers(12, seed=1).repeat(3, axis=1)[:, : models.FEATURES]:
            yield row, int(row[: models.CLASSES].argmax())


@pytest.fixture(autouse=True)
def numpy_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The backend in numpy, found by its name as a third party's is."""
    (tmp_path / "site").mkdir()
    register_backend(tmp_path / "site", "numpy")
    monkeypatch.syspath_prepend(tmp_path / "site")
    get_backend.cache_clear()
    yield
    get_backend.cache_clear()


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of this test only."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "locks"))


def measured(tmp_path: Path, latency: LatencyPlan | None = None) -> tuple[QuietSteps, Told]:
    """Measure a check in numpy, which simulates int8 and therefore times nothing."""
    steps = QuietSteps()
    samples = Told(steps)
    model = Model.from_onnx(models.select_first(tmp_path / "model.onnx"))
    check = Check(
        nodeid="t",
        series_nodeid="t",
        candidate=EngineSpec("numpy", "int8", "weight-only", model),
        reference=EngineSpec("numpy", "fp32", None, model),
        dataset=Dataset.from_iterable(samples),
        limits=Limits(),
        latency=latency,
    )
    session = Session(Cache(tmp_path / "cache"), baseline=lambda _: None, steps=steps)
    session.measure(check).close()
    assert steps.now == []
    return steps, samples


def test_a_warm_cache_tells_all_that_may_take_long(tmp_path: Path) -> None:
    """Reading, opening, first batches and reading back are steps of their own; building only where it is done."""
    cold, _ = measured(tmp_path)
    warm, samples = measured(tmp_path)
    assert [text for text in cold.texts if text.startswith("building")] != []
    of_both = [text.partition(" of model")[0].partition(" on ")[0] for text in warm.texts]
    assert of_both == [
        "loading numpy",
        "reading quant_data, for the inputs",
        "reading what numpy-fp32",
        "opening numpy-fp32",
        "running first batches",
        "reading what numpy-int8-weight-only",
        "opening numpy-int8-weight-only",
        "running first batches",
        "evaluating the reference numpy-fp32",
        "evaluating numpy-int8-weight-only",
        "reading back what numpy-int8-weight-only",
    ]
    assert samples.during[0] == "reading quant_data, for the inputs of model"


def test_a_check_without_latency_does_not_wait_for_timing(tmp_path: Path) -> None:
    """Another process times on the processor all the while; nothing is told about waiting, and the check ends."""
    other = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    measured(tmp_path)
    assert other.poll() is None
    other.communicate("\n", timeout=30)
