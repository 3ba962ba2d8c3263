"""One check from its engines to its measurement, with engines that are functions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pytest_quant.backends import Availability
from pytest_quant.environment import device_state
from pytest_quant.errors import BackendUnavailable, BuildError, ModelError
from pytest_quant.measure import build as building
from pytest_quant.measure import engines, pipeline, timing
from pytest_quant.measure.build import Tools
from pytest_quant.measure.pipeline import Measurement, measure_check
from pytest_quant.metrics import Metric
from pytest_quant.result import AccuracyResult, Cost, Coverage, Interval, LatencyResult
from pytest_quant.spec import (
    Check,
    Dataset,
    EngineSpec,
    LatencyPlan,
    Limits,
    Model,
)
from pytest_quant.verdict import Judge
from tests.support.measuring import QuietSteps, quiet_tools
from tests.unit.measure.played import PlayedBackend, inputs, numbers
from tests.unit.record.examples import LATENCY

FREE = inputs(x=(None, 2))
NET = Model("net")
LABELS = np.arange(40) % 2
SAMPLES = np.eye(2, dtype=np.float32)[LABELS] + 0.25 * np.random.default_rng(0).random((40, 2)).astype(np.float32)
OFF = EngineSpec("played", "int8", "static", NET)
FLOAT = EngineSpec("played", "fp32", None, NET)


class Bench:
    """A backend, a cache, and what was told."""

    def __init__(self, folder: Path) -> None:
        self.backend = PlayedBackend(self.play, FREE)
        self.candidate: Callable[[Any], Any] = lambda feeds: {"y": feeds["x"]}
        self.reference: Callable[[Any], Any] = lambda feeds: {"y": feeds["x"]}
        self.steps = QuietSteps()
        self.tools = quiet_tools(folder, self.steps)
        self.judge = Judge(Limits())

    def play(self, precision: str, feeds: Any) -> Any:
        """Be the candidate or the reference."""
        return (self.reference if precision == "fp32" else self.candidate)(feeds)

    def measure(self, **others: Any) -> Measurement:
        """Measure a check of 40 samples and 10 more to calibrate on."""
        dataset = others.pop("dataset", Dataset.from_arrays(SAMPLES, LABELS, numbers(10) + 5))
        check = Check("t", "t", OFF, FLOAT, dataset, latency=None, latency_off="--quant-no-latency")
        check = replace(check, **others)
        return measure_check(check, self.tools, self.judge)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench that is the only backend."""
    new_bench = Bench(tmp_path)
    for module in (building, engines, pipeline):
        monkeypatch.setattr(module, "get_backend", lambda name: {"played": new_bench.backend}[name])
    return new_bench


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[LatencyPlan, Any, Any]]:
    """Plans and subjects that were timed; each gives the latency of the examples."""
    result: list[tuple[LatencyPlan, Any, Any]] = []

    def time_check(
        _check: Check, plan: LatencyPlan, reference: Any, candidate: Any, _tools: Tools, _judge: Judge
    ) -> LatencyResult:
        result.append((plan, reference, candidate))
        return replace(LATENCY, notes=("busy",))

    monkeypatch.setattr(timing, "time_check", time_check)
    monkeypatch.setattr(device_state, "energy_counter", lambda _: nullcontext(float))
    monkeypatch.setattr(
        pipeline, "measure_energy", lambda call, _, limit_mj: (float(len(call()["y"])), Interval(0.0, limit_mj or 0.5))
    )
    return result


def test_a_bootstrap_is_named_and_counted(bench: Bench) -> None:
    """Under the step that evaluates, which it is most of where a score takes long."""
    bench.measure(metric="f1")
    assert bench.steps.described[-1] == "bootstrap of f1, 1999 of 2000 resamples"


def test_a_metric_without_a_score_is_noted(bench: Bench) -> None:
    """Also where no limit needs it."""

    def undefined(_labels: object, _outputs: object) -> float:
        return float("nan")

    undefined.__module__ = "sklearn.metrics._ranking"
    result = bench.measure(metric=Metric(undefined, name="auc"))
    assert result.accuracy.note.startswith("metric 'auc' gave nan")
    assert result.accuracy.note in result.notes


def test_everything_that_is_found(bench: Bench) -> None:
    """Scores, what ran, what it takes, where it came from, and what the reader should know."""
    wrong = np.array([[0.0, 9.0]], np.float32)
    bench.candidate = lambda feeds: {"y": np.where(feeds["x"][:, :1] > 1.2, wrong, feeds["x"])}
    lost = int((SAMPLES[:, 0] > 1.2).sum())
    assert 0 < lost < 20
    bench.backend.facts = {"threads": 3, "size_bytes": 2_500_000}
    result = bench.measure()
    assert (result.accuracy.n, result.accuracy.metric, result.accuracy.reference) == (40, "top1", 100.0)
    assert result.accuracy.drop == pytest.approx(100.0 * lost / 40)
    assert result.accuracy.confidence == 0.95
    assert (result.latency, result.check.latency_off) == (None, "--quant-no-latency")
    assert result.coverage.provider == "{'x': (1, 2)}"
    assert (result.resources.size_mb, result.resources.energy_mj) == (2.5, None)
    assert (result.calibration_samples, result.threads) == (10, 3)
    assert result.cache == {"engine": "built", "reference": "built"}
    assert len(set(result.digests.values())) == 4
    assert sorted(result.digests) == ["calibration_data", "data", "engine", "reference_engine"]
    assert result.accuracy_again is None
    assert result.notes == ("a note",)
    assert result.builds == {
        "engine": "first build of played-int8-static of net",
        "reference outputs": "first build of played-fp32 of net",
    }
    opened: list[Any] = bench.backend.engines
    assert [result.reference, result.engine] == opened


def test_the_second_time_nothing_is_built(bench: Bench) -> None:
    """Neither engines nor the reference's outputs, and no note tells of it; the figures are the same."""
    first = bench.measure()
    bench.steps.texts.clear()
    again = bench.measure()
    assert again.cache == {"engine": "hit", "reference": "hit"}
    assert again.notes == ("a note",)
    assert (again.accuracy, again.digests) == (first.accuracy, first.digests)
    assert bench.steps.texts == [
        "loading played",
        "reading quant_data, for the inputs of net",
        "reading what played-fp32 of net is built from",
        "opening played-fp32 of net",
        "reading what played-int8-static of net is built from",
        "running first batches on played-fp32 of net",
        "evaluating the reference played-fp32 of net on 40 samples",
        "opening played-int8-static of net",
        "running first batches on played-int8-static of net",
        "evaluating played-int8-static of net on 40 samples",
        "reading back what played-int8-static of net runs",
    ]


def test_evaluation_takes_batches_of_32_unless_told(bench: Bench) -> None:
    """Of both engines."""
    bench.measure()
    assert [max(engine.runs) for engine in bench.backend.engines] == [32, 32]
    bench.measure(eval_batch_size=6)
    assert [max(each.runs) for each in bench.backend.engines[2:]] == [6, 6]


@pytest.mark.parametrize("step", [0.02, 2e-7])
def test_an_engine_that_differs_from_itself_is_evaluated_again(bench: Bench, step: float) -> None:
    """And said to; threads that add up in any order differ by some 1e-7, for which the set is not run again."""
    calls = iter(range(10**6))
    bench.candidate = lambda feeds: {"y": feeds["x"] * np.float32(1.0 + step * (next(calls) % 2))}
    result = bench.measure()
    (unsteady,) = result.unsteady
    assert (unsteady.engine, unsteady.n, unsteady.top1_pct) == ("played-int8-static", 8, 0.0)
    if step < 1e-3:
        assert result.accuracy_again is None
        assert 0.0 < unsteady.relative < 1e-6
        assert sum(bench.backend.engines[1].runs) < 2 * 40 + 32 + 2 * 8
        return
    assert result.accuracy_again is not None
    assert result.accuracy_again.n == 40
    assert result.notes[-1] == (
        "played-int8-static is nondeterministic: for two runs of the same batch they differ by 2 %, "
        "and in the top-1 class of 0 % of 8 samples"
    )


def test_outputs_of_an_unsteady_reference_are_not_taken_for_exact(bench: Bench) -> None:
    """Verdicts rest on a second evaluation, and the reader learns where the first one is from."""
    note = "outputs of played-fp32 are those of an earlier run, which a new one would not repeat"
    calls = iter(range(10**6))
    bench.reference = lambda feeds: {"y": feeds["x"] * np.float32(1.0 + 0.02 * (next(calls) % 2))}
    for status in ("built", "hit"):
        result = bench.measure()
        assert result.cache["reference"] == status
        assert result.accuracy_again is not None
        assert [each.engine for each in result.unsteady] == ["played-fp32"]
        assert (note in result.notes) is (status == "hit")


def test_a_latency_is_that_of_the_batches_that_are_timed(bench: Bench, timed: list[Any]) -> None:
    """Both engines take the same samples; energy is of the candidate."""
    result = bench.measure(latency=LatencyPlan(batch_size=4, max_s=3.0), latency_off="")
    ((plan, reference, candidate),) = timed
    assert (plan.batch_size, plan.max_s) == (4, 3.0)
    for subject, spec in ((reference, FLOAT), (candidate, OFF)):
        assert subject.built.spec == spec
        np.testing.assert_array_equal(subject.feeds["x"], SAMPLES[:4])
    assert result.latency is not None
    assert result.latency.notes == ("busy",)
    assert result.resources.energy_mj == 4.0
    assert bench.steps.texts[-1] == "measuring the energy of played-int8-static"
    assert result.coverage.provider == "{'x': (4, 2)}"
    assert result.check.latency_off == ""


def test_accuracy_that_is_off_is_not_evaluated(bench: Bench, timed: list[Any]) -> None:
    """First batches alone run; the rest is what a run that measures both finds, of the same series and digests."""
    ran: list[int] = []

    def counted(feeds: Any) -> Any:
        ran.append(len(feeds["x"]))
        return {"y": feeds["x"]}

    bench.candidate = bench.reference = counted
    both = bench.measure(latency=LatencyPlan(), latency_off="", metric="top1")
    evaluated, told = len(ran), len(bench.steps.texts)
    ran.clear()
    result = bench.measure(latency=LatencyPlan(), latency_off="", metric="top1", accuracy_off="why")
    assert len(ran) < evaluated
    assert not [text for text in bench.steps.texts[told:] if "evaluating" in text]
    assert (result.accuracy, result.accuracy_again) == (AccuracyResult(0, "top1"), None)
    assert (result.latency, result.resources.energy_mj) == (both.latency, both.resources.energy_mj)
    assert (result.digests, result.coverage) == (both.digests, both.coverage)
    assert result.cache == {"engine": "hit"}
    assert len(timed) == 2


@pytest.mark.parametrize(
    ("limit_mj", "repeat_s", "step"),
    [
        (None, 0.5, "measuring the energy of played-int8-static"),
        (3.0, 3.0, "measuring the energy of played-int8-static for 15 to 30 s"),
    ],
)
def test_only_a_limit_on_energy_is_worth_its_time(
    bench: Bench,
    timed: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    limit_mj: float | None,
    repeat_s: float,
    step: str,
) -> None:
    """Other checks have a rough figure in half a second; without a counter there is neither a figure nor a run."""
    arguments: dict[str, Any] = {"latency": LatencyPlan(), "latency_off": "", "limits": Limits(max_energy_mj=limit_mj)}
    assert bench.measure(**arguments).resources.energy_mj_ci == Interval(0.0, repeat_s)
    assert bench.steps.texts[-1] == step
    monkeypatch.setattr(device_state, "energy_counter", lambda _: nullcontext(None))
    bench.steps.texts.clear()
    result = bench.measure(**arguments)
    assert (len(timed), result.resources.energy_mj, result.resources.energy_mj_ci) == (2, None, None)
    assert not any("energy" in text for text in bench.steps.texts)


def test_a_check_on_the_processor_opens_no_driver_of_gpus(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its first lock to its energy, timed for real and with every option: it pays nothing for GPUs."""
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    monkeypatch.setattr(pynvml, "nvmlInit", pytest.fail)
    result = bench.measure(latency=LatencyPlan(max_s=0.2), latency_off="")
    assert result.latency is not None
    assert result.latency.rounds > 0
    assert (result.resources.device, result.resources.device_memory_nvml_mb) == ("cpu", None)


def test_a_batch_that_the_model_fixes_is_the_one_that_is_timed(bench: Bench, timed: list[Any]) -> None:
    """The reader is told where it is not the one that was asked for."""
    bench.backend._signature = inputs(x=(8, 2))
    note = "latency is for batches of 8: the model's batch size is fixed"
    for batch_size, noted in ((1, True), (8, False)):
        result = bench.measure(latency=LatencyPlan(batch_size=batch_size), latency_off="")
        assert timed[-1][0].batch_size == 8
        assert (note in result.notes) is noted
    assert note not in bench.measure().notes


def test_a_simulation_is_not_timed(bench: Bench, timed: list[Any]) -> None:
    """It says why; no energy either."""
    bench.backend.facts = {"simulated": True}
    result = bench.measure(latency=LatencyPlan(), latency_off="")
    assert (timed, result.latency, result.resources.energy_mj) == ([], None, None)
    assert result.check.latency_off == (
        "played-fp32 is a float simulation, and its speed says nothing about the device"
    )
    assert result.accuracy.simulated


def test_a_reference_that_is_not_float_is_refused(bench: Bench) -> None:
    """With what ran; every engine is closed."""
    half = Coverage(50.0, "MACs", (), "played", float_nodes=("a", "b"))
    bench.backend.facts = {"coverage": lambda _: half}
    with pytest.raises(ModelError) as raised:
        bench.measure()
    assert str(raised.value) == (
        "the reference played-fp32 of net does not compute in FP32: its file is quantized or half\n"
        "  got: 50 % of MACs ran in float32, not a, b\n"
        "  allowed: a float32 model as the reference\n"
        "  next: give the float32 model as the model; the quantized one goes to quantized='model_int8.onnx'"
    )
    assert [engine.closed for engine in bench.backend.engines] == [1]
    bench.backend.facts = {"coverage": lambda _: replace(half, pct=99.0, float_nodes=())}
    with pytest.raises(ModelError, match="99 % of MACs ran in float32, not all"):
        bench.measure()
    bench.backend.facts = {"coverage": lambda _: replace(half, pct=100.0)}
    assert bench.measure().coverage.pct == 100.0


@pytest.mark.parametrize(
    ("availability", "kind", "message"),
    [
        (
            Availability(False, reason="no GPU", fix="buy one"),
            BackendUnavailable,
            "backend 'played' cannot run here: no GPU\n  next: buy one",
        ),
        (Availability(False, reason="no GPU"), BackendUnavailable, "backend 'played' cannot run here: no GPU"),
        (
            Availability(False, reason="it crashed", fix="update", broken=True),
            BuildError,
            "backend 'played' is installed but does not load\n  got: it crashed\n  next: update",
        ),
    ],
)
def test_a_backend_that_cannot_run(
    bench: Bench, availability: Availability, kind: type[Exception], message: str
) -> None:
    """Before anything is read."""
    bench.backend.available = availability
    with pytest.raises(kind) as raised:
        bench.measure()
    assert (type(raised.value), str(raised.value)) == (kind, message)
    assert bench.steps.texts == ["loading played"]


def test_what_an_engine_raises_when_it_is_opened(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says which, and leaves none open."""

    def refuse(*_: Any) -> None:
        raise OSError("no such file")

    monkeypatch.setattr(bench.backend, "open", refuse)
    with pytest.raises(BuildError, match="opening played-fp32 of net failed"):
        bench.measure()


def test_another_engine_is_compared_over_a_part_of_the_data(bench: Bench) -> None:
    """As trials are: the reference runs over that part, and the whole set is read from the cache."""
    result = bench.measure()
    assert result.bench is not None
    assert result.bench.reference.built.backend.device == "cpu"
    side, data = result.bench.candidate, result.bench.data
    assert result.bench.compare(side, data) == result.accuracy
    other = bench.backend.open(OFF, side.built.folder)
    assert result.bench.compare(replace(side, engine=other), data) == result.accuracy
    assert bench.backend.engines[-1].runs


def test_the_cost_is_what_this_run_took(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that come out of the cache cost no build; without a timing there is next to none."""
    clock = iter(range(0, 3000, 100))
    monkeypatch.setattr(pipeline, "REAL", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    built, found = (bench.measure().cost for _ in range(2))
    assert built is not None
    assert found == Cost(0.0, 100.0, 100.0)
    assert built.build_s > 0.0
    assert built.evaluation_s + built.build_s == pytest.approx(100.0)
    assert built.total_s == pytest.approx(200.0)
