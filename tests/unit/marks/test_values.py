"""One value of a mark: its type and range are checked, and the message names the way out."""

from __future__ import annotations

import math
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant import UsageError
from pytest_quant.backends.offer import check_calibration
from pytest_quant.marks.keys import KEYS, check_scores, read
from pytest_quant.spec import LIMITS, Calibration, EngineSpec, Limits, Model

NUMBERS = [field.name for field in fields(Limits) if field.name in KEYS]


def _limits(**keys: object) -> Limits:
    return read(keys).limits


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.001, -5])
def test_nan_infinity_and_negative_numbers_are_refused(key: str, value: float) -> None:
    """No limit may be NaN, infinite or negative."""
    with pytest.raises(UsageError, match=f"{key} must be finite and at least 0"):
        read({key: value})


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("value", ["1.0", True, (1.0,), 1 + 0j, object()])
def test_a_limit_must_be_a_number(key: str, value: object) -> None:
    """Texts, truth values and containers are no limits."""
    with pytest.raises(UsageError, match=f"{key} must be a number"):
        read({key: value})


@pytest.mark.parametrize("key", NUMBERS)
def test_a_list_of_limits_is_refused_with_what_takes_lists(key: str) -> None:
    """Only backend, precision, scheme and batch_size parametrize."""
    with pytest.raises(UsageError, match="not a list") as caught:
        read({key: [1.0, 2.0]})
    assert "batch_size" in str(caught.value)


@given(st.sampled_from(["min_agreement", "min_coverage"]), st.floats(0.0, 1.0, exclude_min=True, exclude_max=True))
def test_a_percent_minimum_between_0_and_1_says_what_to_write(key: str, share: float) -> None:
    """0.9 was meant to be 90, and 0.9 percent would let nearly anything pass."""
    with pytest.raises(UsageError, match=f"{key} is in percent") as caught:
        read({key: share})
    assert caught.value.fix == f"write {100 * share:g}"


def test_0_9_says_write_90() -> None:
    """The message holds the number to write."""
    with pytest.raises(UsageError, match="write 90"):
        read({"min_agreement": 0.9})


def test_the_float_1_is_a_share_and_the_int_1_is_one_percent() -> None:
    """1.0 is how all of them is written as a share."""
    with pytest.raises(UsageError, match="write 100"):
        read({"min_agreement": 1.0})
    assert _limits(min_coverage=1).min_coverage == 1.0


@given(st.floats(1.0, 100.0, exclude_min=True) | st.just(0))
def test_percents_are_kept_as_they_are(value: float) -> None:
    """0 and what lies above 1, up to 100, are percents."""
    assert _limits(min_coverage=value).min_coverage == value


@pytest.mark.parametrize(("key", "value"), [("min_agreement", 100.1), ("min_coverage", 101), ("min_cosine", 1.01)])
def test_what_no_engine_can_reach_is_refused(key: str, value: float) -> None:
    """More than all is a mistake."""
    with pytest.raises(UsageError, match=key):
        read({key: value})


@pytest.mark.parametrize(
    ("value", "kind"), [(2, int), (2.0, float), (np.float32(2), float), (np.int64(2), int), (Fraction(2), float)]
)
def test_any_real_number_is_a_limit(value: object, kind: type) -> None:
    """Numbers of numpy and fractions become plain ones; a whole number stays one, and messages write it as one."""
    found = _limits(max_drop=value).max_drop
    assert found == 2.0
    assert type(found) is kind


OF_OUTPUTS = ("min_sqnr_db", "min_cosine", "max_abs_error")


@pytest.mark.parametrize("key", OF_OUTPUTS)
def test_a_limit_on_tensors_may_name_outputs(key: str) -> None:
    """A dict gives each output its own; an output that it does not name has none."""
    assert getattr(_limits(**{key: {"scores": 1, "boxes": 0.5}}), key) == (("scores", 1.0), ("boxes", 0.5))


@pytest.mark.parametrize("key", OF_OUTPUTS)
@pytest.mark.parametrize(
    "value", [{}, {1: 0.5}, {"": 0.5}, {"y": -0.5}, {"y": math.nan}, {"y": math.inf}, {"y": "1"}, {"y": [1]}]
)
def test_a_wrong_limit_by_output_is_refused(key: str, value: object) -> None:
    """Its numbers are checked as one number is."""
    with pytest.raises(UsageError, match=key):
        read({key: value})


def test_a_cosine_of_an_output_is_at_most_1() -> None:
    """The message names the output."""
    with pytest.raises(UsageError, match=r"min_cosine\['y'\] lies between 0 and 1"):
        read({"min_cosine": {"y": 1.5}})


@pytest.mark.parametrize(
    ("value", "pairs"),
    [
        (3, ((50.0, 3.0),)),
        ({"p99": 9, "p50": 3}, ((50.0, 3.0), (99.0, 9.0))),
        ({99: 9}, ((99.0, 9.0),)),
        ({"99.9": 9.5}, ((99.9, 9.5),)),
    ],
)
def test_latency_is_the_median_or_named_percentiles(value: object, pairs: tuple[tuple[float, float], ...]) -> None:
    """A number limits the median, a dict its percentiles, in their order."""
    assert _limits(max_latency_ms=value).max_latency_ms == pairs


@pytest.mark.parametrize(
    "value", [{"p0": 1}, {"p100": 1}, {"fast": 1}, {True: 1}, {None: 1}, {}, {"p50": -1}, {"p50": 3, 50: 4}]
)
def test_a_wrong_percentile_is_refused(value: object) -> None:
    """Percentiles lie between 0 and 100, and each is named once."""
    with pytest.raises(UsageError, match="max_latency_ms"):
        read({"max_latency_ms": value})


@pytest.mark.parametrize(
    ("key", "value", "near"),
    [
        ("backend", "tr", "trt"),
        ("precision", "int7", "int8"),
        ("scheme", "dynamics", "dynamic"),
        ("reference", "ort-tr", "ort-trt"),
        ("reference_precision", "fp61", "fp16"),
        ("calibration", "min-max", "minmax"),
    ],
)
def test_an_unknown_name_says_the_nearest(key: str, value: str, near: str) -> None:
    """A typing error is answered with what was meant."""
    with pytest.raises(UsageError, match="unknown backend" if key == "reference" else f"unknown {key}") as caught:
        read({key: value})
    assert f"did you mean '{near}'?" in str(caught.value)


@pytest.mark.parametrize("key", ["backend", "precision", "scheme", "batch_size"])
def test_an_empty_list_is_refused(key: str) -> None:
    """A list of nothing would make no test at all."""
    with pytest.raises(UsageError, match=f"{key} is an empty list"):
        read({key: []})


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "8", [8, 0]])
def test_a_batch_size_counts_samples(value: object) -> None:
    """It is a whole number of at least 1."""
    with pytest.raises(UsageError, match="batch_size must be a whole number"):
        read({"batch_size": value})


@pytest.mark.parametrize(
    ("value", "calibration"),
    [
        (None, Calibration()),
        ("entropy", Calibration(method="entropy")),
        ({"samples": 200, "batch_size": 4}, Calibration(samples=200, batch_size=4)),
        ({"method": "percentile", "percentile": 99.9}, Calibration(method="percentile", percentile=99.9)),
        (Calibration(method="entropy"), Calibration(method="entropy")),
    ],
)
def test_calibration_is_a_method_or_a_dict(value: object, calibration: Calibration) -> None:
    """What is not written keeps its default."""
    assert read({"calibration": value}).calibration == calibration


@pytest.mark.parametrize(
    "value",
    [
        3,
        {"sample": 3},
        {"samples": 0},
        {"percentile": 0.999},
        {"percentile": 101},
        {"method": "max"},
        {"batch_size": 0},
    ],
)
def test_a_wrong_calibration_is_refused(value: object) -> None:
    """Unknown methods and keys, and numbers out of range, are usage errors."""
    with pytest.raises(UsageError, match="calibration"):
        read({"calibration": value})


@pytest.mark.parametrize(
    ("percentile", "refused"), [(50.0, True), (1.5, True), (50.1, False), (100.0, False), (100, False)]
)
def test_mark_and_backend_draw_one_line_for_percentiles(percentile: float, refused: bool) -> None:
    """What the mark takes a backend takes, and both refuse the rest in the same words."""
    said = []
    for ask in (
        lambda: read({"calibration": {"method": "percentile", "percentile": percentile}}),
        lambda: check_calibration(_calibrated_at(percentile), ("percentile",)),
    ):
        try:
            ask()
        except UsageError as error:
            said.append(str(error))
    assert len(said) == (2 if refused else 0)
    assert len(set(said)) <= 1
    assert all("above 50, at most 100" in words for words in said)


def _calibrated_at(percentile: float) -> EngineSpec:
    calibration = Calibration(method="percentile", percentile=percentile)
    return EngineSpec("ort", "int8", "static", Model("m", Path("m.onnx")), calibration=calibration)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model", 3),
        ("model", ""),
        ("quantized", 3),
        ("data", 3),
        ("data", "no fixture/name"),
        ("output", 3),
        ("output", " "),
        ("exclude", 3),
        ("exclude", [3]),
        ("options", ["threads"]),
        ("options", {1: 2}),
        ("metric", 3),
    ],
)
def test_a_wrong_type_is_refused_by_its_key(key: str, value: object) -> None:
    """The message begins with the key."""
    with pytest.raises(UsageError, match=f"^{key} must be"):
        read({key: value})


def test_none_is_as_good_as_not_written() -> None:
    """A closer mark can take back what a farther one sets."""
    assert read({"max_drop": None, "backend": None, "options": None}) == read({})


UNITS = {
    "max_drop": "pp",
    "min_accuracy": "%",
    "min_agreement": "%",
    "min_sqnr_db": "dB",
    "max_latency_ms": "ms",
    "min_speedup": "x",
    "max_size_mb": "MB",
    "max_memory_mb": "MB",
    "max_build_s": "s",
    "max_energy_mj": "mJ",
    "min_coverage": "%",
    "max_slowdown": "%",
    "max_p50_increase": "%",
    "max_drop_increase": "pp",
}


def test_every_limit_with_a_unit_takes_it() -> None:
    """Those of the table's rows, and of the drops, whose unit is the metric's."""
    told = {name: row.unit for name, row in LIMITS.items() if row.unit}
    assert {**UNITS, **told} == UNITS


@pytest.mark.parametrize(("key", "unit"), UNITS.items())
@pytest.mark.parametrize(("number", "read_as"), [("12", 12), ("12.5", 12.5), ("1.2e1", 12.0), ("+12.", 12.0)])
def test_a_number_with_its_unit_is_the_number(key: str, unit: str, number: str, read_as: float) -> None:
    """With a space or without; a whole number stays one."""
    for text in (f"{number}{unit}", f"{number} {unit}", f" {number}  {unit} "):
        assert _limits(**{key: text}) == _limits(**{key: read_as})
        assert repr(_limits(**{key: text})) == repr(_limits(**{key: read_as}))


@pytest.mark.parametrize(("key", "unit"), UNITS.items())
@pytest.mark.parametrize("other", ["percent", "us", "mb", "GB", "ms2", "db", "X", "ppm", "%%", "k%"])
def test_another_unit_is_refused_with_the_right_one(key: str, unit: str, other: str) -> None:
    """Nothing is converted."""
    with pytest.raises(UsageError, match=f"{key} is in {unit}") as caught:
        read({key: f"4 {other}"})
    assert f"convert it to {unit}" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "ms", "4", "4 ms or so", "4,5 ms", "four ms", "0x4 ms", "nan ms", "-4 ms", "1e999 ms"]
)
def test_a_text_that_is_no_number_with_a_unit_is_refused(text: str) -> None:
    """The message names the key and says what a limit is."""
    with pytest.raises(UsageError, match="max_latency_ms"):
        read({"max_latency_ms": text})


def test_limits_in_a_dict_have_units_too() -> None:
    """Of percentiles and of outputs; a wrong one is named with its key."""
    assert _limits(max_latency_ms={"p50": "3 ms", "p99": 9}).max_latency_ms == ((50.0, 3), (99.0, 9))
    assert _limits(min_sqnr_db={"y": "20 dB"}).min_sqnr_db == (("y", 20),)
    with pytest.raises(UsageError, match=r"max_latency_ms\['p99'\] is in ms"):
        read({"max_latency_ms": {"p99": "1 s"}})


def test_a_percentage_with_its_sign_may_be_a_share_no_more_than_without() -> None:
    """0.99 % of the compute is a mistake, however it is written."""
    with pytest.raises(UsageError, match="min_coverage is in percent"):
        read({"min_coverage": "0.99%"})


@pytest.mark.parametrize("key", ["min_ratio", "min_cosine", "max_abs_error"])
def test_a_limit_without_a_unit_takes_none(key: str) -> None:
    """A ratio is a number."""
    with pytest.raises(UsageError, match=f"{key} must be a number"):
        read({key: "0.9 x"})


@pytest.mark.parametrize("key", ["max_drop", "min_accuracy", "max_drop_increase"])
def test_points_are_refused_for_a_metric_that_has_none(key: str) -> None:
    """The mean absolute error is not in percent; plain numbers are in its own unit."""
    values = {key: f"1 {UNITS[key]}"}
    with pytest.raises(UsageError, match=f"{key} is in the unit of mae"):
        check_scores(values, "mae")
    check_scores({key: 1.5}, "mae")
    check_scores(values, "top1")
    check_scores(values, None)
