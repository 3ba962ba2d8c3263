"""The backend ``trt``: what it offers, when it runs, when it simulates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.backends import Availability, get_backend
from pytest_quant.backends.trt import TrtBackend, TrtRtxBackend
from pytest_quant.backends.trt.provider import OrtTrtBackend
from pytest_quant.errors import UsageError
from pytest_quant.spec import Calibration, EngineSpec
from pytest_quant.testing.conformance.examples import dense

TRT = TrtBackend()
HERE = Availability(True, "10.13.0", "cuda:0 A GPU (SM89)")
NOT_HERE = Availability(False, reason="tensorrt is not installed", fix="pip install it")


@pytest.fixture
def spec(tmp_path: Path) -> EngineSpec:
    """A static int8 engine."""
    return EngineSpec("trt", "int8", "static", dense().write(tmp_path))


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> Callable[[Availability], None]:
    """Decide whether TensorRT and a GPU are here."""
    return lambda result: monkeypatch.setattr("pytest_quant.backends.trt.find_native", lambda: result)


def with_options(spec: EngineSpec, **options: object) -> EngineSpec:
    """The same with options."""
    return replace(spec, options=tuple(sorted(options.items())))


def test_a_gpu_without_onnxruntime_is_unavailable(
    spec: EngineSpec, native: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra for TensorRT brings neither wheel, and the line that brings one is told."""
    native(HERE)
    assert TRT.availability(spec) == HERE
    monkeypatch.setattr("pytest_quant.backends.trt.find_spec", lambda _: None)
    result = TRT.availability(spec)
    assert result.reason == "onnxruntime is not installed, which quantizes for TensorRT"
    assert result.fix.startswith('pip install "pytest-quant[ort]"')
    assert (result.available, result.broken) == (False, False)


def test_with_a_target_it_is_simulated_by_the_other_builder(spec: EngineSpec, native: Callable[..., None]) -> None:
    """Availability says that nothing runs; without one the native runtime has the reason and the fix."""
    native(NOT_HERE)
    assert TRT.availability(spec) == NOT_HERE
    result = TRT.availability(with_options(spec, compute_capability="SM89"))
    assert result.available
    assert "runs nothing" in result.device


def test_a_gpu_that_is_here_is_used_whatever_target_is_named(spec: EngineSpec, native: Callable[..., None]) -> None:
    """And the key of the engine names it, so that a simulated build is never taken for it."""
    named = with_options(spec, compute_capability="SM89")
    native(NOT_HERE)
    simulated = TRT.ingredients(named)
    native(HERE)
    assert TRT.availability(named) == HERE
    real = TRT.ingredients(named)
    assert real["GPU"] == HERE.device
    assert real != simulated


def test_what_only_the_device_can_build_is_not_simulated(spec: EngineSpec, native: Callable[..., None]) -> None:
    """Ranges that TensorRT finds itself. Floats of sixteen bits can be, whole or beside INT8."""
    native(NOT_HERE)
    implicit = TRT.availability(with_options(spec, compute_capability="SM89", quantization="implicit"))
    assert not implicit.available
    assert "needs the device" in implicit.reason
    for kind in ("fp16", "bf16"):
        for backend in (TRT, OrtTrtBackend(), TrtRtxBackend()):
            beside = with_options(replace(spec, backend=backend.name), compute_capability="SM89", beside=kind)
            for each in (beside, replace(beside, precision=kind, scheme=None, options=beside.options[1:])):
                backend.check(each)
                assert backend.availability(each).available


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"calibration": Calibration(method="percentile")}, {"quantization": "implicit"}, "got: calibration='perc"),
        ({"exclude": ("first",)}, {"quantization": "implicit"}, "first"),
        ({"scheme": "qat"}, {"quantization": "implicit"}, "got: scheme='qat'"),
        ({"scheme": "given"}, {"quantization": "implicit"}, "got: scheme='given'"),
    ],
)
def test_options_that_exclude_each_other(
    spec: EngineSpec, change: dict[str, object], options: dict[str, object], message: str
) -> None:
    """Said before anything is built."""
    given = replace(spec, quantized=spec.model, **change)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=message) as caught:
        TRT.check(with_options(given, **options))
    assert "drop quantization='implicit'" in str(caught.value)
    TRT.check(with_options(given))


def test_how_a_plan_runs_is_no_part_of_its_key(spec: EngineSpec, native: Callable[..., None]) -> None:
    """The same plan runs by either library for device memory."""
    native(HERE)
    assert TRT.ingredients(with_options(spec, memory="pycuda")) == TRT.ingredients(spec)
    assert TRT.ingredients(with_options(spec, tf32=True)) != TRT.ingredients(spec)


def test_ranges_of_implicit_int8_are_keyed_by_everything_that_decides_them(
    spec: EngineSpec, native: Callable[..., None]
) -> None:
    """Method, samples, batch size, the float type beside it, TensorRT's version and the GPU."""
    native(HERE)
    implicit = with_options(spec, quantization="implicit")
    before = TRT.calibration_ingredients(implicit)
    others = [
        replace(implicit, calibration=Calibration(method="entropy")),
        replace(implicit, calibration=Calibration(samples=3)),
        replace(implicit, calibration=Calibration(batch_size=4)),
        with_options(spec, quantization="implicit", beside="bf16"),
    ]
    assert all(TRT.calibration_ingredients(other) != before for other in others)
    native(replace(HERE, version="10.16.0"))
    assert TRT.calibration_ingredients(implicit) != before
    native(replace(HERE, device="cuda:0 Another (SM80)"))
    assert TRT.calibration_ingredients(implicit) != before


def test_only_native_builds_choose_kernels_by_time(spec: EngineSpec, native: Callable[..., None]) -> None:
    """They need the device alone; a simulated one is TensorRT-RTX's, which needs no device."""
    native(HERE)
    assert TRT.tunes(spec)
    native(NOT_HERE)
    assert not TRT.tunes(spec)
    assert not get_backend("trt-rtx").tunes(replace(spec, backend="trt-rtx"))


@pytest.mark.parametrize("backend", [TrtBackend(), TrtRtxBackend(), OrtTrtBackend()], ids=lambda engine: engine.name)
def test_other_ranges_keep_the_options_of_tensorrt(backend: TrtRtxBackend, tmp_path: Path) -> None:
    """The same engine but for the calibration: the target and the batch stay, and ONNX Runtime's options stay out."""
    options = (("compute_capability", "SM89"), ("max_batch", 8))
    spec = EngineSpec(backend.name, "int8", "static", dense().write(tmp_path), options=options)
    result = [remedy.spec for remedy in backend.remedies(spec)]
    assert {each.calibration.method for each in result} == {"entropy", "percentile"}
    assert {replace(each, calibration=spec.calibration) for each in result} == {spec}


def test_only_engines_of_native_builds_are_shared(spec: EngineSpec, native: Callable[..., None]) -> None:
    """TensorRT-RTX builds one faster than it comes through a cache."""
    native(HERE)
    assert TRT.shares(spec)
    assert get_backend("ort").shares(spec)
    native(NOT_HERE)
    assert not TRT.shares(spec)
    assert not get_backend("trt-rtx").shares(replace(spec, backend="trt-rtx"))


def test_a_simulation_is_keyed_by_what_computes_it(spec: EngineSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its outputs are those of ONNX Runtime on this processor, and kept under the key of the plan."""
    rtx = get_backend("trt-rtx")
    simulated = replace(spec, backend="trt-rtx", precision="fp32", scheme=None)
    before = rtx.ingredients(simulated)
    monkeypatch.setattr("pytest_quant.backends.trt.isa_tier", lambda: "another")
    assert {name for name, value in rtx.ingredients(simulated).items() if before[name] != value} == {"instruction set"}
