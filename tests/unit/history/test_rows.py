"""What must be equal before two records of a series are compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.history.rows import identity_of, version_of, way_of_timing
from pytest_quant.record import from_json, to_json
from pytest_quant.result import AccuracyResult, Environment, TimedSample
from tests.unit.record.examples import ACCURACY, COVERAGE, LATENCY, RUN, a_pass, a_record, unavailable, with_latency


def test_figures_do_not_make_a_version() -> None:
    """A better model, another engine and another calibration are what one wants to compare."""
    other = replace(a_record(), digests={"data": "def456", "engine": "another"}, calibration="entropy")
    assert version_of(a_pass()) == version_of(a_record()) == version_of(other)


@pytest.mark.parametrize(
    "accuracy",
    [replace(ACCURACY, metric="top5"), replace(ACCURACY, unit="pp"), replace(ACCURACY, better="lower")],
)
def test_another_metric_is_another_version(accuracy: AccuracyResult) -> None:
    """Its name, its unit or which way is better."""
    assert version_of(a_record(accuracy=accuracy)) != version_of(a_record())


def test_other_data_is_another_version() -> None:
    """By its digest."""
    assert version_of(replace(a_record(), digests={"data": "other"})) != version_of(a_record())


def test_a_check_that_never_came_to_be_has_no_version() -> None:
    """Nothing was measured on anything."""
    assert version_of(unavailable()) == ""


def test_the_context_does_not_make_another_identity() -> None:
    """A new Python is noted; the order of the fields is chance."""
    identity = dict(reversed(list(RUN.environment.identity.items())))
    other = replace(RUN, environment=Environment(identity, {"python": "3.14.0"}))
    assert identity_of(other, a_record()) == identity_of(RUN, a_record())


def test_machine_provider_and_threads_make_an_identity() -> None:
    """Each of them alone changes it."""
    elsewhere = replace(RUN, environment=Environment({**RUN.environment.identity, "cpu": "Other"}, {}))
    on_gpu = a_record(coverage=replace(COVERAGE, provider="CUDAExecutionProvider"))
    threaded = replace(a_record(), threads=4)
    result = [identity_of(RUN, a_record()), identity_of(elsewhere, a_record())]
    result += [identity_of(RUN, on_gpu), identity_of(RUN, threaded)]
    assert len(set(result)) == 4


def test_the_way_of_timing_makes_an_identity() -> None:
    """Exact FP32 and the host's clock are what every earlier record has, so they add nothing to an identity."""
    ways: list[dict[str, object]] = [
        {},
        {"tf32": False},
        {"reference_precision": "tf32", "tf32": True},
        {"reference_precision": "fp16"},
        {"clock": "device"},
        {"clock": "device", "reference_precision": "fp16"},
        {"small_pages": True},
        {"sample": TimedSample(3, {"x": (1, 57)}, (8, 400))},
        {"sample": TimedSample(0, {"x": (1, 400)}, (8, 400))},
        {"sample": TimedSample(0, {"x": (1, 57), "y": (57,)}, (8, 400))},
    ]
    records = [a_record(latency=None), *(with_latency(a_record(), **way) for way in ways)]
    result = [identity_of(RUN, each) for each in records]
    assert result[0] == result[1] == result[2]
    assert len(set(result)) == 9


def test_a_sample_is_known_by_its_shapes_alone() -> None:
    """Another place among other samples adds nothing, and neither does a model that leaves no size open."""
    samples = [TimedSample(3, {"x": (1, 57)}, (8, 400)), TimedSample(0, {"x": (1, 57)}, (57, 57))]
    assert way_of_timing(replace(LATENCY, sample=samples[0])) == ("on x 1x57",)
    assert len({identity_of(RUN, with_latency(a_record(), sample=sample)) for sample in samples}) == 1
    fixed = with_latency(a_record(), sample=TimedSample(0, {}, (64, 64)))
    assert identity_of(RUN, fixed) == identity_of(RUN, a_record())
    assert from_json(to_json(fixed)) == fixed
