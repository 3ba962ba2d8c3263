"""A failure says on one screen which limit broke, what was found, what it means and what to try."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from pytest_quant.record import Record, from_json, to_json
from pytest_quant.report import failure
from pytest_quant.result import Interval, OpCoverage, OutputError, OutputFault, Status, Verdict
from tests.unit.record.examples import ACCURACY, COVERAGE, FAILED_DROP, LATENCY, a_check, a_pass, a_record, unavailable
from tests.unit.record.strategies import records


def _flat(record: Record) -> str:
    """The message with its line breaks undone."""
    return " ".join(failure(record).split())


def _broken(limit: str, allowed: float, observed: float | None, status: Status = Status.FAIL) -> tuple[Verdict, ...]:
    return (Verdict(limit, allowed, observed, status, "because of this"),)


@pytest.mark.parametrize(
    "part",
    [
        "1 of 2 limits broken",
        "max_drop: allowed 1, observed 4.23: FAIL, 4.23 pp is above 1 pp",
        "top1 97.78 -> 93.55 % on 1797 samples, drop 4.23 pp, 95% interval [3.18, 5.31]",
        "McNemar p = 0.00012, 84 samples right in only one",
        "agreement 94.83 %, SQNR 21.37 dB",
        "worst class 7: 98.31 -> 71.91 % of 178 samples",
        "p50 0.4567 -> 0.2345 ms, speedup x1.948 [1.901, 1.989]",
        "87.50 % of MACs in int8 on CPUExecutionProvider (nodes: Conv 3/4, MatMul 2/2)",
        "the loss is real",
        "calibrate on more samples than 64",
    ],
)
def test_a_broken_drop_is_explained(part: str) -> None:
    """Limit, observed, reference, interval, test, meaning and what to try."""
    assert part in _flat(a_record())


def test_a_limit_that_holds_is_left_out() -> None:
    """One screen is for what is wrong."""
    assert "min_coverage" not in failure(a_record())


def test_the_worst_verdict_comes_first() -> None:
    """An undecided limit does not hide a broken one."""
    text = failure(a_record(verdicts=(*_broken("min_speedup", 2.0, 1.9, Status.INCONCLUSIVE), FAILED_DROP)))
    assert text.index("max_drop") < text.index("min_speedup")
    assert "1 of 2 limits broken" in text


def test_a_loss_that_chance_could_give_is_called_so() -> None:
    """With the number of samples that would tell."""
    unsure = replace(ACCURACY, p_value=0.3, drop=1.2, drop_ci=Interval(-0.5, 2.9))
    text = _flat(a_record(accuracy=unsure))
    assert "chance alone could give this loss (p = 0.3)" in text
    assert "about 520 samples would tell" in text


def test_a_limit_outside_the_interval_asks_for_no_more_samples() -> None:
    """The interval lies beyond it already."""
    assert "would tell" not in failure(a_record())


def test_a_slower_candidate_is_called_slower() -> None:
    """By how much, and what makes a dynamic scheme slow."""
    slow = replace(LATENCY, speedup=0.16)
    text = _flat(a_record(a_check(scheme="dynamic"), latency=slow, verdicts=_broken("min_speedup", 1.0, 0.16)))
    assert "6.25 times slower than FP32" in text
    assert "scheme='static'" in text
    assert "in float ran Conv (1 of 4 nodes)" in text


def test_a_faster_candidate_is_not_called_slower() -> None:
    """Fast, and not fast enough."""
    assert "1.95 times as fast as FP32" in _flat(a_record(verdicts=_broken("min_speedup", 3.0, 1.95)))


@pytest.mark.parametrize(("isa", "told"), [("avx2", True), ("avx512", True), ("avx512_vnni", False), ("neon", False)])
def test_a_cpu_without_vnni_is_named(isa: str, told: bool) -> None:
    """Where int8 has no dot product, no recipe makes it fast."""
    record = replace(a_record(verdicts=_broken("max_latency_ms", 0.1, 0.2)), isa=isa)
    assert (f"({isa}) has no int8 dot product" in _flat(record)) is told


def test_overhead_is_named() -> None:
    """A run of microseconds is mostly not the network."""
    tiny = replace(LATENCY, reference_p50_ms=0.02)
    verdicts = _broken("min_speedup", 3.0, 1.9)
    assert "0.02 ms, mostly overhead" in _flat(a_record(latency=tiny, verdicts=verdicts))
    assert "mostly overhead" not in _flat(a_record(verdicts=verdicts))


def test_a_graph_for_another_runtime_is_named() -> None:
    """Coverage 0 of a model that carries Q/DQ pairs: they were never fused."""
    none = replace(COVERAGE, pct=0.0, by_op=(OpCoverage("Conv", 4, 0),), float_nodes=("/a/Conv", "/b/Conv"))
    text = _flat(a_record(a_check(scheme="qat"), coverage=none, verdicts=_broken("min_coverage", 50.0, 0.0)))
    assert "fused none of the Q/DQ pairs" in text
    assert "/a/Conv, /b/Conv" in text
    assert "100.00 % of the eligible MACs ran in float" in text


def test_op_types_beside_matrix_products_are_named() -> None:
    """Where all of them are quantized, accuracy goes for little speed."""
    many = replace(COVERAGE, by_op=(OpCoverage("Conv", 4, 4), OpCoverage("Softmax", 3, 3)))
    assert "int8 ran in Softmax (3) too" in _flat(a_record(coverage=many))
    assert "op_types" not in _flat(a_record())


def test_a_limit_on_one_output_is_explained_as_the_limit_is() -> None:
    """What to try does not depend on how the limit was written."""
    assert "calibrate on more samples than 64" in _flat(a_record(verdicts=_broken("min_sqnr_db[scores]", 20, 3.0)))


def test_a_reference_that_is_bad_itself_is_named() -> None:
    """It is not the quantization."""
    assert "FP32 itself scores 97.78" in _flat(a_record(verdicts=_broken("min_accuracy", 99.0, 97.78)))


def test_outputs_that_cannot_be_compared_come_before_all() -> None:
    """No figure says anything then."""
    broken = replace(ACCURACY, faults=(OutputFault("logits", "not finite", 12, "NaN"),))
    text = _flat(a_record(accuracy=broken, verdicts=_broken("outputs", 0.0, 1.0)))
    assert "cannot be compared at all" in text


def test_latency_that_is_off_says_why() -> None:
    """Not measured is never passed."""
    check = replace(a_check(), latency_off="--quant-no-latency is set")
    verdicts = _broken("min_speedup", 1.0, None, Status.INCONCLUSIVE)
    text = _flat(a_record(check, latency=None, verdicts=verdicts, status=Status.INCONCLUSIVE))
    assert "not measured: --quant-no-latency is set" in text
    assert "min_speedup: allowed 1, observed -" in text


def test_signs_of_noise_are_told() -> None:
    """They void nothing, and explain a wide interval."""
    assert "the clock was adjusted" in failure(a_record(latency=replace(LATENCY, notes=("the clock was adjusted",))))


def test_a_check_that_never_came_to_be_gives_its_reason() -> None:
    """And the next step."""
    assert "pip install onnxruntime-gpu" in _flat(unavailable())


def test_nothing_broken_is_no_failure() -> None:
    """Only the status is said."""
    assert failure(a_pass()).splitlines()[0] == "digits ort-int8-static: PASS"


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(records.map(lambda record: from_json(to_json(record))))
def test_any_failure_fits_one_screen(record: Record) -> None:
    """At most 25 lines of 100 printable characters, whatever names and figures hold."""
    lines = failure(record).split("\n")
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    assert all(line.isprintable() for line in lines)


def test_a_failure_that_is_too_long_says_so() -> None:
    """And where the rest is."""
    many = tuple(Verdict(f"limit_{i}", 0.0, 1.0, Status.FAIL, "long " * 30) for i in range(20))
    assert failure(a_record(verdicts=many)).splitlines()[-1] == "... --quant-json FILE writes all of it"


def test_each_output_is_told_the_worst_first() -> None:
    """With its own error: boxes in pixels and scores have nothing in common."""
    several = replace(
        ACCURACY,
        by_output=(
            OutputError("boxes", sqnr_db=56.25, max_abs_error=3.25),
            OutputError("same", identical=True),
            OutputError("scores", sqnr_db=0.0, max_abs_error=0.875),
        ),
    )
    text = _flat(a_record(accuracy=several))
    scores, boxes = "output scores: SQNR 0 dB, largest error 0.875", "output boxes: SQNR 56.25 dB, largest error 3.25"
    assert f"{scores}; {boxes}; output same: identical" in text
    assert "output y" not in _flat(a_record(accuracy=replace(ACCURACY, by_output=(OutputError("y", sqnr_db=1.0),))))
