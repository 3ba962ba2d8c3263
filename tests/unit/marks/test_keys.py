"""What may stand behind each key of a mark."""

from __future__ import annotations

import math
import re
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant import UsageError
from pytest_quant.marks.keys import KEYS, check_alone, check_scores, read
from pytest_quant.spec import LIMITS, OWN_SCORES, Calibration, ChannelGroup, Limits

NUMBERS = [field.name for field in fields(Limits) if field.name in KEYS]


def _limits(**keys: object) -> Limits:
    return read(keys).limits


@pytest.mark.parametrize("key", NUMBERS)
def test_a_limit_is_one_finite_number_of_at_least_0(key: str) -> None:
    """NaN, infinity, negative numbers, texts, truth values and containers are no limits."""
    for value in (math.nan, math.inf, -math.inf, -0.001, -5):
        with pytest.raises(UsageError, match=f"{key} must be finite and at least 0"):
            read({key: value})
    for wrong in ("1.0", True, (1.0,), 1 + 0j, object()):
        with pytest.raises(UsageError, match=f"{key} must be a number"):
            read({key: wrong})
    with pytest.raises(UsageError, match="not a list") as caught:
        read({key: [1.0, 2.0]})
    assert "batch_size" in str(caught.value)


@given(st.sampled_from(["min_agreement", "min_coverage"]), st.floats(0.0, 1.0, exclude_min=True, exclude_max=True))
def test_a_percent_minimum_between_0_and_1_says_what_to_write(key: str, share: float) -> None:
    """0.9 was meant to be 90, and 0.9 percent would let nearly anything pass."""
    with pytest.raises(UsageError, match=f"{key} is in percent") as caught:
        read({key: share})
    assert caught.value.fix == f"write {100 * share:g}"


def test_the_float_1_is_a_share_and_the_int_1_is_one_percent() -> None:
    """1.0 is how all of them is written as a share."""
    with pytest.raises(UsageError, match="write 100"):
        read({"min_agreement": 1.0})
    assert _limits(min_coverage=1).min_coverage == 1.0


@given(st.floats(1.0, 100.0, exclude_min=True) | st.just(0))
def test_percents_are_kept_as_they_are(value: float) -> None:
    """0 and what lies above 1, up to 100, are percents."""
    assert _limits(min_coverage=value).min_coverage == value


OF_OUTPUTS = ("min_sqnr_db", "min_cosine", "max_abs_error")


@pytest.mark.parametrize("key", OF_OUTPUTS)
def test_a_limit_on_tensors_may_name_outputs(key: str) -> None:
    """A dict gives each output its own, whose number is checked as one number is; others have none."""
    assert getattr(_limits(**{key: {"scores": 1, "boxes": 0.5}}), key) == (("scores", 1.0), ("boxes", 0.5))
    by_number: list[object] = [{"y": number} for number in (-0.5, math.nan, math.inf, "1", [1])]
    for value in ({}, {1: 0.5}, {"": 0.5}, *by_number):
        with pytest.raises(UsageError, match=key):
            read({key: value})


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


REFUSED: dict[str, list[tuple[str, object]]] = {
    r"^max_latency_ms( has| names| is an empty|\[)": [
        ("max_latency_ms", value)
        for value in ({"p0": 1}, {"p100": 1}, {"fast": 1}, {True: 1}, {None: 1}, {}, {"p50": -1}, {"p50": 3, 50: 4})
    ],
    "unknown": [
        *(("backend", "tr"), ("precision", "int7"), ("scheme", "dynamics"), ("calibration", "min-max")),
        ("reference_precision", "fp61"),
    ],
    "is an empty list": [(key, []) for key in ("backend", "precision", "scheme", "batch_size")],
    "^min_agreement is in percent": [("min_agreement", 100.1)],
    "^min_coverage is in percent": [("min_coverage", 101), ("min_coverage", "0.99%")],
    "lies between 0 and 1": [("min_cosine", 1.01), ("min_cosine", {"y": 1.5})],
    "must be a number": [(key, "0.9 x") for key in ("min_ratio", "min_cosine", "max_abs_error")],
    "must be a whole number": [("batch_size", value) for value in (0, -1, 1.5, True, "8", [8, 0])],
    "calibration": [
        ("calibration", value)
        for value in (3, {"sample": 3}, {"samples": 0}, {"percentile": 0.999}, {"method": "max"}, {"batch_size": 0})
    ],
    "^(model|quantized|data|output|exclude|options|metric) must be": [
        *(("model", value) for value in (3, "")),
        *(("data", value) for value in (3, "no fixture/name")),
        *(("output", value) for value in (3, " ")),
        *(("exclude", value) for value in (3, [3])),
        *(("options", value) for value in (["threads"], {1: 2})),
        *((key, 3) for key in ("quantized", "metric")),
    ],
    "^max_latency_ms": [
        ("max_latency_ms", text)
        for text in ("", "ms", "4", "4 ms or so", "4,5 ms", "four ms", "0x4 ms", "nan ms", "-4 ms", "1e999 ms")
    ],
    "^channels must be": [("channels", []), ("channels", {}), ("channels", "output0")],
    "must be an output's name with a range": [
        *(("channels", {name: {"a": (0, 1)}}) for name in (1, "")),
        *(("channels", {"y": value}) for value in ((0, 4), {}, {"axis": 1}, {"": (0, 1)}, {1: (0, 1)})),
        *(("channels", {"y": {"axis": axis, "a": (0, 1)}}) for axis in (0, True, "1")),
    ],
    "must be a range of channels": [
        ("channels", {"y": {"a": value}})
        for value in (4, (4,), (4, 4), (4, 2), (-1, 2), (0.0, 2), (0, True), slice(0, 2))
    ],
}


@pytest.mark.parametrize(("words", "written"), REFUSED.items())
def test_what_a_key_does_not_take_is_refused(words: str, written: list[tuple[str, object]]) -> None:
    """The message names the key, and what is wrong with its value."""
    for key, value in written:
        with pytest.raises(UsageError, match=words) as caught:
            read({key: value})
        assert key in str(caught.value)


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


@pytest.mark.parametrize("percentile", [50.0, 1.5, 0.99, 101])
def test_the_percentile_of_a_calibration_is_no_share(percentile: float) -> None:
    """It is above 50, and at most 100."""
    with pytest.raises(UsageError, match="above 50, at most 100"):
        read({"calibration": Calibration(method="percentile", percentile=percentile)})


def test_none_is_as_good_as_not_written() -> None:
    """A closer mark can take back what a farther one sets."""
    assert read({"max_drop": None, "backend": None, "options": None}) == read({})


UNITS = {
    "max_drop": "pp",
    "min_accuracy": "%",
    "min_reference_accuracy": "%",
    "min_agreement": "%",
    "min_sqnr_db": "dB",
    "max_latency_ms": "ms",
    "max_ttft_ms": "ms",
    "max_tpot_ms": "ms",
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
    units = {name: row.unit for name, row in LIMITS.items() if row.unit}
    assert {**UNITS, **units} == UNITS


@pytest.mark.parametrize(("key", "unit"), UNITS.items())
def test_a_number_with_its_unit_is_the_number(key: str, unit: str) -> None:
    """With a space or without, a whole number stays one; another unit is refused, and never converted."""
    for number, read_as in (("12", 12), ("12.5", 12.5), ("1.2e1", 12.0), ("+12.", 12.0)):
        for text in (f"{number}{unit}", f"{number} {unit}", f" {number}  {unit} "):
            assert repr(_limits(**{key: text})) == repr(_limits(**{key: read_as}))
    for other in ("percent", "us", "mb", "GB", "ms2", "db", "X", "ppm", "%%", "k%"):
        with pytest.raises(UsageError, match=f"{key} is in {unit}") as caught:
            read({key: f"4 {other}"})
        assert f"convert it to {unit}" in str(caught.value)


def test_limits_in_a_dict_have_units_too() -> None:
    """Of percentiles and of outputs; a wrong one is named with its key."""
    assert _limits(max_latency_ms={"p50": "3 ms", "p99": 9}).max_latency_ms == ((50.0, 3), (99.0, 9))
    assert _limits(min_sqnr_db={"y": "20 dB"}).min_sqnr_db == (("y", 20),)
    with pytest.raises(UsageError, match=r"max_latency_ms\['p99'\] is in ms"):
        read({"max_latency_ms": {"p99": "1 s"}})


@pytest.mark.parametrize("key", ["max_drop", *OWN_SCORES, "max_drop_increase"])
def test_points_are_refused_for_a_metric_that_has_none(key: str) -> None:
    """The mean absolute error is not in percent; plain numbers are in its own unit."""
    values = {key: f"1 {UNITS[key]}"}
    with pytest.raises(UsageError, match=f"{key} is in the unit of mae"):
        check_scores(values, "mae")
    check_scores({key: 1.5}, "mae")
    check_scores(values, "top1")
    check_scores(values, None)


@pytest.mark.parametrize("name", ["absolute_error", "MeanSquaredLoss", "deviance"])
def test_a_bare_error_is_refused_with_the_ways_to_wrap_it(name: str) -> None:
    """That it is a share in percent, where more is better, is not proposed."""

    def fn() -> None:
        """Stand for a function of that name."""

    fn.__name__ = name
    with pytest.raises(UsageError) as caught:
        read({"metric": fn})
    message = str(caught.value)
    assert "Metric(fn, better='lower', unit='', scale=1)" in message
    assert "better='higher'" not in message
    with pytest.raises(UsageError, match=re.escape("Metric(fn, better='higher', unit='%', scale=100)")):
        read({"metric": len})


def test_groups_are_read_in_their_order() -> None:
    """The axis is the first one after that of the samples unless it is written."""
    value = {"y": {"boxes": (0, 4), "scores": [4, None]}, "z": {"axis": -1, "all": (0, 2)}}
    assert read({"channels": value}).channels == (
        ChannelGroup("y", "boxes", 1, 0, 4),
        ChannelGroup("y", "scores", 1, 4, None),
        ChannelGroup("z", "all", -1, 0, 2),
    )
    assert read({}).channels == ()


def test_a_drop_may_be_limited_by_parts() -> None:
    """Each is read as a limit on the whole is, and messages name the part."""
    assert _limits(max_drop={"overall": "1 pp", "label": 3}).max_drop == (("overall", 1), ("label", 3))
    for wrong, what in (
        ({}, r"max_drop is an empty dict"),
        ({"label": -1}, r"max_drop\['label'\] must be finite and at least 0"),
        ({3: 1.0}, r"max_drop has a key that is no output's name"),
    ):
        with pytest.raises(UsageError, match=what) as caught:
            read({"max_drop": wrong})
    with pytest.raises(UsageError, match="empty dict") as caught:
        read({"max_drop": {}})
    assert caught.value.fix == "write max_drop={'overall': 1, 'label': 3}"
    with pytest.raises(UsageError, match="max_drop is in the unit of mae"):
        check_scores({"max_drop": {"label": "3 pp"}}, "mae")


def test_given_scores_have_no_parts() -> None:
    """Their overall drop may be limited in a dict too."""
    check_alone({"scores": "gsm8k", "max_drop": {"overall": 1.0}})
    with pytest.raises(UsageError, match="no labels, groups or outputs") as caught:
        check_alone({"scores": "gsm8k", "max_drop": {"overall": 1.0, "label": 2.0}})
    assert caught.value.fix == "write max_drop=1.0"
