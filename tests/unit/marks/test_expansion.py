"""From the marks of a test to its checks."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant import Metric
from pytest_quant.backends.offer import OVERRIDE
from pytest_quant.errors import UsageError
from pytest_quant.marks.expansion import check_backends, check_id, checks_of, combine, fill_in, series_nodeid
from pytest_quant.marks.keys import KEYS, MarkKeys, describe, read
from pytest_quant.spec import OWN_SCORES, Check, Dataset, EngineSpec, Limits, Model


def _combine(*marks: dict[str, object], parameter: dict[str, object] | None = None) -> MarkKeys:
    of_parameter = [] if parameter is None else [pytest.mark.quant(**parameter).mark]
    return combine([pytest.mark.quant(**mark).mark for mark in marks], of_parameter)


def test_the_closest_wins_key_by_key() -> None:
    """What it does not write comes from farther away, ``None`` takes back, and a ``pytest.param`` is closer still."""
    keys = _combine({"max_drop": 1.0}, {"max_drop": 2.0, "min_agreement": 99}, {"min_speedup": 1.5})
    assert keys.limits == Limits(max_drop=1.0, min_agreement=99.0, min_speedup=1.5)
    assert _combine({"max_drop": 1.0}, parameter={"max_drop": 3.0}).limits.max_drop == 3.0
    assert _combine({"max_drop": None}, {"max_drop": 2.0}).limits.max_drop is None


def test_a_wrong_mark_is_an_error_even_where_a_closer_one_hides_it() -> None:
    """A mistake does not wait until somebody takes the closer mark away."""
    with pytest.raises(UsageError, match="max_drop must be"):
        _combine({"max_drop": 1.0}, {"max_drop": "much"})


def test_an_unknown_key_names_the_nearest() -> None:
    """Every key is suggested for a typing error in it; a value without a key is refused too."""
    for key in KEYS:
        with pytest.raises(UsageError, match=f"has no key '{key}x'") as caught:
            _combine({f"{key}x": 1})
        assert f"did you mean '{key}'?" in str(caught.value)
    with pytest.raises(UsageError, match="takes keys only"):
        combine([pytest.mark.quant("ort").mark])


def test_a_parameter_neither_makes_tests_nor_changes_those_of_a_list() -> None:
    """One case cannot become several, and the test's id would name another engine than the one that runs."""
    with pytest.raises(UsageError, match=r"precision is a list in the mark of a pytest\.param"):
        _combine({}, parameter={"precision": ["fp32", "int8"]})
    # As the error says: one in each parameter, or the list in the mark of the test.
    each = [_combine({}, parameter={"precision": precision}) for precision in ("fp32", "int8")]
    of_test = _combine({"precision": ["fp32", "int8"]}, parameter={})
    precisions = [check.candidate.precision for keys in each for check in checks_of(keys, "ort")]
    assert precisions == [check.candidate.precision for check in checks_of(of_test, "ort")] == ["fp32", "int8"]
    values = {"backend": "ort", "precision": "int8", "scheme": "static", "batch_size": 2, "quantized": "q.onnx"}
    for key, value in values.items():
        with pytest.raises(UsageError, match=f"a pytest.param sets {key}"):
            _combine({"precision": ["fp32", "int8"]}, parameter={key: value})


def test_the_text_of_markers_has_every_key() -> None:
    """``pytest --markers`` documents the mark whole."""
    text = describe()
    assert all(f"\n  {key}: " in text for key in KEYS)


def test_min_accuracy_is_in_the_metrics_unit_wherever_that_is_named() -> None:
    """0.9 is a mistake for a share in percent, and a fine score for an error or an error rate."""
    for limit in OWN_SCORES:
        for metric in (None, "f1", Metric(len)):
            with pytest.raises(UsageError, match="write 90"):
                _combine({limit: 0.9}, {"metric": metric})
        for metric in ("mae", Metric(len, unit=""), Metric(len, better="lower")):
            assert getattr(_combine({limit: 0.9}, {"metric": metric}).limits, limit) == 0.9


def test_a_bare_callable_is_no_metric() -> None:
    """Nobody can tell whether more is better."""
    with pytest.raises(UsageError, match="bare callable"):
        _combine({"metric": len, "max_drop": 1.0})


@pytest.mark.parametrize(
    ("nodeid", "expected"),
    [
        ("a.py::test_a[ort-int8-static]", "a.py::test_a"),
        ("a.py::test_a[x-ort-int8-static]", "a.py::test_a[x]"),
        ("a.py::test_a[ort-int8-static-x]", "a.py::test_a[x]"),
        ("a.py::test_a[x]", "a.py::test_a[x]"),
        ("a.py::test_a", "a.py::test_a"),
    ],
)
def test_only_our_part_goes(nodeid: str, expected: str) -> None:
    """The author's own parameters stay, and so does the name of a test without a list of ours."""
    assert series_nodeid(nodeid, "ort-int8-static") == expected
    assert series_nodeid(nodeid) == nodeid


@pytest.mark.parametrize(
    ("nodeid", "expected"),
    [
        ("a.py::t[1-3]", "a.py::t"),
        ("a.py::t[0]", "a.py::t"),
        ("a.py::t[ort-int8-static-1-3]", "a.py::t"),
        ("a.py::t[1-3-ort-int8-static]", "a.py::t"),
        ("a.py::t[x-1-3-ort-int8-static]", "a.py::t[x]"),
        ("a.py::t[x-ort-int8-static-1-3]", "a.py::t[x]"),
        ("a.py::t[2-3-1-3]", "a.py::t[2-3]"),
        ("a.py::t[10-1]", "a.py::t[10-1]"),
    ],
)
def test_what_repeats_a_test_goes_too(nodeid: str, expected: str) -> None:
    """The first of three of pytest-repeat, or the first of pytest-flakefinder; no parameter that looks alike."""
    first = r"1-\d+|0"
    assert series_nodeid(nodeid, first, "ort-int8-static", first) == expected


MODEL, QUANTIZED = Model.from_onnx("m.onnx"), Model.from_onnx("q.onnx")
DATASET = Dataset("arrays", None, name="mine")


@pytest.fixture(autouse=True)
def no_override(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a usual machine, whatever ran in this process before."""
    monkeypatch.delenv(OVERRIDE, raising=False)


def _check(**keys: object) -> Check:
    (check,) = checks_of(read(keys), "ort")
    return fill_in(check, MODEL, QUANTIZED, DATASET)


@pytest.mark.parametrize(
    ("keys", "min_coverage", "default"),
    [
        ({}, None, 50.0),
        ({"scheme": "dynamic"}, None, 50.0),
        ({"precision": "fp32"}, None, None),
        ({"min_coverage": 80}, 80.0, None),
        ({"scheme": "dynamic", "min_coverage": 0}, 0.0, None),
        ({"backend": "trt", "precision": "fp16", "min_coverage": 80}, 80.0, None),
        ({"backend": "ort-cuda"}, None, None),
        ({"backend": "ort-cuda", "min_coverage": 80}, 80.0, None),
        ({"precision": "fp32", "min_coverage": 80}, None, None),
    ],
)
def test_quantized_engines_must_prove_their_coverage(
    keys: dict[str, object], min_coverage: float | None, default: float | None
) -> None:
    """Half of the compute by default where there is a scheme, nothing for fp32."""
    limits = _check(**keys).limits
    assert (limits.min_coverage, limits.default_min_coverage) == (min_coverage, default)


def test_the_reference_is_at_fp32_with_the_options_of_its_own_backend() -> None:
    """Threads hold for both, or the times would not compare; another backend understands none of them."""
    check = _check(options={"threads": 2})
    assert check.reference == EngineSpec("ort", "fp32", None, MODEL, options=(("threads", 2),))
    assert check.candidate.options == (("threads", 2),)
    assert _check(reference="trt", options={"threads": 2}).reference == EngineSpec("trt", "fp32", None, MODEL)
    check = _check(reference="trt", reference_precision="fp16", options={"threads": 2})
    assert check.timed_reference == EngineSpec("trt", "fp16", None, MODEL)


def test_model_and_data_are_filled_in_later() -> None:
    """Until then each engine has the name that the mark gives its model."""
    (check,) = checks_of(read({"model": "net", "quantized": "q.onnx"}), "ort")
    assert [spec.model.name for spec in check.engines] == ["net", "net"]
    filled = fill_in(check, MODEL, QUANTIZED, DATASET)
    assert (filled.candidate.quantized, _check().candidate.quantized) == (QUANTIZED, None)
    assert ([spec.model for spec in filled.engines], filled.dataset) == ([MODEL, MODEL], DATASET)


def test_accuracy_is_compared_with_exact_fp32_whatever_the_options_say() -> None:
    """TF32 is an option that is the candidate's alone."""
    check = _check(backend="trt", options={"tf32": True, "workspace_mb": 8})
    assert check.reference.options == (("workspace_mb", 8),)
    assert check.candidate.options == (("tf32", True), ("workspace_mb", 8))


def test_latency_is_compared_with_what_the_mark_names() -> None:
    """The same model, backend and options; by default the reference itself, at exact FP32."""
    options = {"workspace_mb": 8}
    exact = EngineSpec("trt", "fp32", None, MODEL, options=(("workspace_mb", 8),))
    for precision, timed in (
        (None, None),
        ("fp32", None),
        ("tf32", replace(exact, options=(("tf32", True), ("workspace_mb", 8)))),
        ("fp16", replace(exact, precision="fp16")),
        ("bf16", replace(exact, precision="bf16")),
    ):
        check = _check(backend="trt", reference_precision=precision, options=options)
        assert check.reference == exact
        assert (check.reference_precision, check.timed_reference) == (precision or "fp32", timed)


@pytest.mark.parametrize(
    ("backend", "precision", "offered"),
    [
        ("ort", "tf32", "fp32"),
        ("torch", "fp16", "fp32, bf16"),
        ("ort-cuda", "bf16", "fp32, tf32, fp16"),
    ],
)
def test_what_a_backend_has_not_is_refused_with_what_it_has(backend: str, precision: str, offered: str) -> None:
    """When the test is collected, before anything is loaded."""
    with pytest.raises(UsageError, match=f"backend '{backend}' has no {precision} to compare latency with") as caught:
        _check(backend=backend, reference_precision=precision)
    assert (caught.value.value, caught.value.allowed) == (f"reference_precision='{precision}'", offered)


def test_a_provider_without_an_option_for_tf32_says_so() -> None:
    """ONNX Runtime's TensorRT provider: TF32 is off for the whole process, or on for all of it."""
    with pytest.raises(UsageError, match="option 'tf32' of backend 'ort-trt'") as caught:
        check_backends(_check(backend="ort-trt", reference_precision="tf32"))
    assert "backend='trt' times FP32 with TF32" in str(caught.value.allowed)


def _ids(**keys: object) -> list[str]:
    lists = tuple(name for name, value in keys.items() if isinstance(value, list))
    marked = read(keys, lists)
    return [check_id(check, marked) for check in checks_of(marked, "ort")]


@pytest.mark.parametrize(
    ("keys", "ids"),
    [
        ({}, ["ort-int8-static"]),
        ({"batch_size": 8}, ["ort-int8-static"]),
        ({"batch_size": [1, 8]}, ["ort-int8-static-b1", "ort-int8-static-b8"]),
        ({"precision": ["int8", "int4"]}, ["ort-int8-static", "ort-int4-weight-only"]),
        ({"quantized": "q.onnx", "precision": ["fp32", "int8"]}, ["ort-fp32", "ort-int8-given"]),
        ({"quantized": "q.onnx", "scheme": "qat"}, ["ort-int8-qat"]),
        ({"quantized": "q.onnx", "scheme": ["given", "qat"]}, ["ort-int8-given", "ort-int8-qat"]),
    ],
)
def test_what_is_not_written_has_a_default(keys: dict[str, object], ids: list[str]) -> None:
    """The scheme is offered; what arrives quantized is given or qat; only a list of batch sizes is in the id."""
    assert _ids(**keys) == ids


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"scheme": "weight-only"},
            r"(?s)no scheme 'weight-only' for int8.*next: write precision='int4', which has it",
        ),
        ({"precision": "int4", "scheme": "static"}, "'ort' has no scheme 'static' for int4"),
        ({"backend": ["ort", "trt"], "scheme": "dynamic"}, "'trt' has no scheme 'dynamic' for int8"),
        ({"precision": "bf16"}, "'ort' has no precision 'bf16'"),
        ({"backend": "openvino", "precision": "fp8"}, "'openvino' has no precision 'fp8'"),
        ({"scheme": "qat"}, "scheme 'qat' is for a model that arrives quantized, and none is named"),
        ({"scheme": "given"}, "scheme 'given' is for a model that arrives quantized, and none is named"),
        ({"quantized": "q.onnx", "scheme": "static"}, "its scheme is given"),
        ({"quantized": "q.onnx", "precision": "fp32"}, "needs a quantized precision"),
        ({"quantized": "q.onnx", "precision": "fp16", "backend": "openvino"}, "needs a quantized precision"),
        ({"precision": "fp16"}, "'ort' does not make fp16 of a float model"),
    ],
)
def test_what_cannot_be_built_is_refused(keys: dict[str, object], message: str) -> None:
    """Contradictions and what a backend does not offer are usage errors."""
    with pytest.raises(UsageError, match=message):
        list(map(check_backends, checks_of(read(keys), "ort")))


@given(
    st.lists(st.sampled_from(["fp32", "int8"]), min_size=1, max_size=4),
    st.lists(st.sampled_from(["static", "dynamic"]), min_size=1, max_size=4),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
)
def test_every_engine_comes_once(precisions: list[str], schemes: list[str], sizes: list[int]) -> None:
    """The ids are the set of all combinations, with the scheme left out where it says nothing."""
    ids = _ids(precision=precisions, scheme=schemes, batch_size=sizes)
    engines = {f"ort-{p}" if p == "fp32" else f"ort-{p}-{s}" for p, s in product(precisions, schemes)}
    assert len(ids) == len(set(ids))
    assert set(ids) == {f"{engine}-b{size}" for engine, size in product(engines, sizes)}
