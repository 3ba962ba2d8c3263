"""The open engines of a check: closed while others are timed, and profiled by layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sklearn.metrics

from pytest_quant.backends import Feeds
from pytest_quant.backends.readback import LayerTime
from pytest_quant.errors import BuildError, UsageError
from pytest_quant.measure.build import BuiltEngine
from pytest_quant.measure.engine_trio import LayerProfile, profile_layers
from pytest_quant.measure.engines import TimingSubject
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.metrics import Metric
from pytest_quant.spec import EngineSpec, LatencyPlan, Model, Signature
from tests.support.measuring import quiet_tools
from tests.unit.measure import test_pipeline
from tests.unit.measure.played import Played
from tests.unit.record.examples import LATENCY, a_check

NO_TENSORS = Signature((), ())
FEEDS = {"x": np.zeros((4, 2), np.float32)}


class Layered(Played):
    """An engine that tells its layers, and keeps what they were asked for."""

    def __init__(self, log: list[Any], signature: Signature = NO_TENSORS) -> None:
        super().__init__(lambda feeds: feeds, signature)
        self._log = log

    def layer_times(self, feeds: Feeds) -> tuple[LayerTime, ...]:
        """Return one layer."""
        self._log.append(("layers", feeds))
        return (LayerTime("layer", "Conv", "fp32", 1.0, ("conv",)),)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What happens, in order: devices that are taken and left, engines that are asked."""
    happened: list[Any] = []

    @contextmanager
    def exclusive(_: DeviceLocks, *devices: str) -> Iterator[None]:
        happened.append(("take", devices))
        yield
        happened.append(("leave", devices))

    monkeypatch.setattr(DeviceLocks, "exclusive", exclusive)
    return happened


def _measurement(open_reference: Callable[[], Played], open_candidate: Callable[[], Played], **facts: Any) -> Any:
    spec = EngineSpec("played", "fp32", None, Model("net"))

    def subject(opened: Callable[[], Played], device: str) -> TimingSubject:
        backend: Any = SimpleNamespace(device=device, open=lambda *_: opened())
        return TimingSubject(BuiltEngine(spec, backend, Path(), "key", "hit", "", None, None, None), FEEDS)

    timed = subject(open_reference, "cpu"), subject(open_candidate, "cuda:0")
    return SimpleNamespace(check=a_check(), latency=LATENCY, bench=SimpleNamespace(timed=timed), **facts)


def _profiled(measurement: Any, folder: Path) -> LayerProfile:
    return profile_layers(measurement.check, measurement.latency, measurement.bench.timed, quiet_tools(folder))


def test_both_engines_run_the_timed_batch_alone_on_their_devices(log: list[Any], tmp_path: Path) -> None:
    """Both devices are held from before the first engine to after the second, and new sessions are closed."""
    opened = [Layered(log), Layered(log)]
    result = _profiled(_measurement(lambda: opened[0], lambda: opened[1]), tmp_path)
    call = ("layers", FEEDS)
    both = ("cpu", "cuda:0")
    assert log == [("take", both), call, call, ("leave", both)]
    assert [engine.closed for engine in opened] == [1, 1]
    assert (result.reference.run_ms, result.candidate.run_ms) == (LATENCY.reference_p50_ms, LATENCY.candidate_p50_ms)
    assert (result.batch_size, result.nodeid) == (LATENCY.batch_size, a_check().nodeid)
    assert [layer.name for layer in result.candidate.layers] == ["layer"]


def test_the_reference_is_the_one_that_is_timed(log: list[Any], tmp_path: Path) -> None:
    """Where latency is compared with another precision, it is that engine's layers, and its name says so."""
    measurement = _measurement(lambda: Layered(log), lambda: Layered(log))
    reference, candidate = measurement.bench.timed
    measurement.bench.timed = replace(reference, precision="tf32"), candidate
    result = _profiled(measurement, tmp_path)
    assert (result.reference.engine, result.candidate.engine) == ("played-fp32 at tf32", "played-fp32")


@pytest.mark.usefixtures("log")
def test_two_that_do_not_tell_are_an_error(tmp_path: Path) -> None:
    """It names the backend and what to do."""

    def silent() -> Played:
        return Played(lambda feeds: feeds, Signature((), ()))

    with pytest.raises(UsageError, match="played cannot tell the times of layers") as raised:
        _profiled(_measurement(silent, silent), tmp_path)
    assert raised.value.fix


bench = test_pipeline.bench


def test_at_most_three_engines_are_open_while_two_are_timed(bench: test_pipeline.Bench) -> None:
    """A session of the candidate and two of the reference; an engine of the check opens again when it runs later."""
    plan = LatencyPlan(max_s=0.3, pages="small")
    most = 0

    def play(feeds: Any) -> Any:
        nonlocal most
        most = max(most, sum(not each.closed for each in bench.backend.engines)) if timing else 0
        return {"y": feeds["x"]}

    timing = False
    bench.candidate = bench.reference = play

    @contextmanager
    def step(text: str) -> Iterator[None]:
        nonlocal timing
        timing = text.startswith("timing")
        yield
        timing = False

    bench.steps.show = step  # type: ignore[method-assign]
    result = bench.measure(latency=plan)
    assert most == 3
    assert [engine.closed for engine in bench.backend.engines] == [1] * 5
    assert result.bench is not None
    assert result.bench.candidate.engine is result.engine
    assert result.bench.compare(result.bench.candidate, result.bench.data) == result.accuracy
    assert [each.closed for each in bench.backend.engines[5:]] == [0]


def test_one_engine_of_a_check_is_open_at_a_time(bench: test_pipeline.Bench) -> None:
    """The memory of the reference goes before the candidate is opened; when it is run again, it opens again."""
    most = 0

    def play(feeds: Any) -> Any:
        nonlocal most
        most = max(most, sum(not engine.closed for engine in bench.backend.engines))
        return {"y": feeds["x"]}

    bench.reference = bench.candidate = play
    result = bench.measure()
    assert most == 1
    assert [engine.closed for engine in bench.backend.engines] == [1, 0]
    assert result.reference.run({"x": test_pipeline.SAMPLES})["y"] is test_pipeline.SAMPLES
    assert len(bench.backend.engines) == 3
    result.close()
    for engine in (result.engine, result.reference):
        with pytest.raises(BuildError, match="is closed"):
            engine.run({"x": test_pipeline.SAMPLES})


def test_the_interval_of_a_slow_score_is_found_once(bench: test_pipeline.Bench) -> None:
    """A second check of equal outputs resamples nothing, and says the same of them."""
    metric = Metric(sklearn.metrics.balanced_accuracy_score)
    first = bench.measure(metric=metric).accuracy
    assert any(text.startswith("bootstrap") for text in bench.steps.described)
    bench.steps.described.clear()
    assert bench.measure(metric=metric).accuracy == first
    assert bench.steps.described == []
