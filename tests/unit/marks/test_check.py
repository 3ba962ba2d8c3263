"""From a mark to a check: defaults of coverage, the reference, and the plan of the timing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_quant.backends import backend_names, get_backend
from pytest_quant.backends.tf32 import OVERRIDE
from pytest_quant.errors import UsageError
from pytest_quant.marks.check import Measuring, build_check, check_backend
from pytest_quant.marks.variants import Offer, combine, variants
from pytest_quant.spec import Check, Dataset, EngineSpec, LatencyPlan, Model

MODEL, QUANTIZED = Model.from_onnx("m.onnx"), Model.from_onnx("q.onnx")
OFFER: Offer = {
    "fp32": (None,),
    "fp16": (None,),
    "int8": ("static", "dynamic", "qat"),
    "int4": ("weight-only",),
}


@pytest.fixture(autouse=True)
def no_override(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a usual machine, whatever ran in this process before."""
    monkeypatch.delenv(OVERRIDE, raising=False)


def _check(keys: dict[str, object] | None = None, measuring: Measuring | None = None) -> Check:
    asked = combine([pytest.mark.quant(**(keys or {})).mark], backends=("ort", "trt"))
    (variant,) = variants(asked, "ort", lambda _: OFFER)
    return build_check(
        asked,
        variant,
        model=MODEL,
        quantized=QUANTIZED,
        dataset=Dataset("arrays", None),
        nodeid="test_a.py::test_a[x]",
        series_nodeid="test_a.py::test_a",
        measuring=measuring or Measuring(),
    )


@pytest.mark.parametrize(
    ("keys", "asked", "default"),
    [
        ({}, None, 50.0),
        ({"quantized": "q.onnx"}, None, 50.0),
        ({"scheme": "dynamic"}, None, 50.0),
        ({"precision": "int4"}, None, 50.0),
        ({"precision": "fp32"}, None, None),
        ({"precision": "fp16"}, None, None),
        ({"min_coverage": 80}, 80.0, None),
        ({"scheme": "dynamic", "min_coverage": 80}, 80.0, None),
        ({"scheme": "dynamic", "min_coverage": 0}, 0.0, None),
        ({"precision": "fp16", "min_coverage": 80}, 80.0, None),
        ({"precision": "fp32", "min_coverage": 80}, None, None),
    ],
)
def test_quantized_engines_must_prove_their_coverage(
    keys: dict[str, object], asked: float | None, default: float | None
) -> None:
    """Half of the compute by default where there is a scheme, nothing for fp32."""
    limits = _check(keys).limits
    assert (limits.min_coverage, limits.default_min_coverage) == (asked, default)


def test_the_reference_is_the_same_backend_at_fp32_with_the_same_options() -> None:
    """Threads and other options of the runtime hold for both, or the times would not compare."""
    check = _check({"options": {"threads": 2}})
    assert check.reference == EngineSpec("ort", "fp32", None, MODEL, options=(("threads", 2),))
    assert check.candidate.options == (("threads", 2),)


def test_another_backends_reference_gets_no_options_of_ours() -> None:
    """Options are what one backend alone understands."""
    assert _check({"reference": "trt", "options": {"threads": 2}}).reference == EngineSpec("trt", "fp32", None, MODEL)


def test_only_qat_reads_the_quantized_model() -> None:
    """The model stays the FP32 one."""
    check = _check({"quantized": "q.onnx"})
    assert (check.candidate.model, check.candidate.quantized) == (MODEL, QUANTIZED)
    assert _check().candidate.quantized is None


def test_latency_is_planned_with_the_marks_batch_size_and_the_options_budget() -> None:
    """The batch size is that of one timed run."""
    assert _check({"batch_size": 4}).latency == LatencyPlan(batch_size=4)
    assert _check(measuring=Measuring(max_time_s=3.0)).latency == LatencyPlan(max_s=3.0)


def test_latency_that_is_off_says_why() -> None:
    """No plan, and the reason in words."""
    check = _check(measuring=Measuring(latency_off="--quant-no-latency is set"))
    assert check.latency is None
    assert check.latency_off == "--quant-no-latency is set"


def test_confidence_comes_from_the_options() -> None:
    """Proof is asked for a whole run, not for one mark."""
    assert _check(measuring=Measuring(confidence=0.9)).confidence == 0.9


def test_accuracy_is_compared_with_exact_fp32_whatever_the_options_say() -> None:
    """TF32 is an option that is the candidate's alone."""
    check = _check({"backend": "trt", "options": {"tf32": True, "workspace_mb": 8}})
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
        check = _check({"backend": "trt", "reference_precision": precision, "options": options})
        assert check.reference == exact
        assert (check.reference_precision, check.timed_reference) == (precision or "fp32", timed)


def test_the_engine_in_another_backend_is_that_ones() -> None:
    """Options of the candidate's backend are not for it."""
    check = _check({"backend": "ort", "reference": "trt", "reference_precision": "fp16", "options": {"threads": 2}})
    assert check.timed_reference == EngineSpec("trt", "fp16", None, MODEL)


@pytest.mark.parametrize(
    ("backend", "precision", "offered"),
    [
        ("ort", "tf32", "fp32"),
        ("ort", "fp16", "fp32"),
        ("openvino", "tf32", "fp32"),
        ("torch", "fp16", "fp32, bf16"),
        ("trt-rtx", "bf16", "fp32, tf32, fp16"),
    ],
)
def test_what_a_backend_has_not_is_refused_with_what_it_has(backend: str, precision: str, offered: str) -> None:
    """When the test is collected, before anything is loaded."""
    asked = combine([pytest.mark.quant(backend=backend, reference_precision=precision).mark], backends=backend_names())
    (variant,) = variants(asked, "ort", lambda name: get_backend(name).schemes)
    with pytest.raises(UsageError, match=f"backend '{backend}' has no {precision} to compare latency with") as caught:
        check_backend(asked, variant, get_backend)
    assert (caught.value.value, caught.value.allowed) == (f"reference_precision='{precision}'", offered)


def test_a_provider_without_an_option_for_tf32_says_so() -> None:
    """ONNX Runtime's TensorRT provider: TF32 is off for the whole process, or on for all of it."""
    asked = combine([pytest.mark.quant(backend="ort-trt", reference_precision="tf32").mark], backends=backend_names())
    (variant,) = variants(asked, "ort", lambda name: get_backend(name).schemes)
    with pytest.raises(UsageError, match="has no option for TF32") as caught:
        check_backend(asked, variant, get_backend)
    assert caught.value.fix == "backend='trt' times FP32 with TF32"
