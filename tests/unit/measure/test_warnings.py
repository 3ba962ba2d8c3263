"""What a check that passes must not hide: engines that keep state, and rows that depend on each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_quant.spec import Dataset
from tests.unit.measure.played import numbers
from tests.unit.measure.test_pipeline import LABELS, OFF, SAMPLES, Bench, bench

__all__ = ["bench"]


def centred(feeds: Any) -> Any:
    """Samples without the mean of their batch."""
    return {"y": feeds["x"] - feeds["x"].mean(axis=0, keepdims=True) * (len(feeds["x"]) > 1)}


def test_a_candidate_alone_that_depends_on_the_batch_is_a_warning(bench: Bench) -> None:
    """It may lose in the batches of a deployment. Where the reference does so too, or its scheme, it is by design."""
    bench.candidate = centred
    result = bench.measure()
    (warning,) = result.warnings
    assert warning.startswith("outputs of played-int8-static depend on the batch: for 8 samples together")
    assert warning in result.notes
    assert bench.measure(candidate=replace(OFF, scheme="dynamic")).warnings == ()
    bench.reference = centred
    result = bench.measure(dataset=Dataset.from_arrays(2 * SAMPLES, LABELS, calibration=SAMPLES[:10]))
    assert (result.warnings, sum("depend on the batch" in note for note in result.notes)) == ((), 2)


def test_an_engine_that_keeps_state_is_a_warning(bench: Bench) -> None:
    """With the remedy, once as a note."""
    last = [0.0]

    def recurrent(feeds: Any) -> Any:
        outputs = feeds["x"] + 0.3 * last[0]
        last[0] = float(outputs.mean())
        return {"y": outputs}

    bench.candidate = recurrent
    result = bench.measure(dataset=Dataset.from_arrays(numbers(40), LABELS, numbers(10) + 5))
    (warning,) = result.warnings
    assert warning.startswith("played-int8-static keeps state")
    assert result.notes.count(warning) == 1
