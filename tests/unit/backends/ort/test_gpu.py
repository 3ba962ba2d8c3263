"""What is missing for a GPU provider, and the line that brings it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest

from pytest_quant.backends import Availability, get_backend
from pytest_quant.backends.offer import OVERRIDE, is_switched_off
from pytest_quant.backends.ort import gpu_engine, libraries
from pytest_quant.backends.ort.libraries import CUDA, TENSORRT, find_provider
from pytest_quant.backends.trt import provider
from pytest_quant.errors import BackendUnavailable, UsageError
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import two_by_two

PROVIDERS = [TENSORRT, CUDA, "CPUExecutionProvider"]


@pytest.fixture
def gpu_wheel(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Let the GPU wheel be installed, and every library load but those the test names with the loader's words."""
    trouble: dict[str, str] = {}
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: PROVIDERS)
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None, raising=False)
    monkeypatch.setattr(libraries, "installed_version", {"onnxruntime-gpu": "1.31.1"}.get)
    monkeypatch.setattr(libraries, "ask_driver", lambda *_: (("00",), ""))

    def loading_trouble(library: str) -> str:
        return next((words for name, words in trouble.items() if name in library), "")

    for module in (provider, libraries):
        monkeypatch.setattr(module, "find_loading_error", loading_trouble)
    return trouble


def test_the_cpu_wheel_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is a skip, with a fix that takes nothing away; both wheels overwrite each other, which is an error."""
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    monkeypatch.setattr(libraries, "installed_version", {"onnxruntime": "1.31.1"}.get)
    # Without a driver the wheel for GPUs would run nothing, and the one for CPUs would be gone.
    for trouble, words, fix in (("", "CPU wheel", "in an environment"), ("gone", "no NVIDIA driver", "run it")):
        monkeypatch.setattr(libraries, "find_loading_error", lambda _, trouble=trouble: trouble)
        result = find_provider(CUDA)
        assert (result.available, result.broken) == (False, False)
        assert words in result.reason
        assert result.fix.startswith(fix)
    monkeypatch.setattr(libraries, "installed_version", {"onnxruntime": "1.31.1", "onnxruntime-gpu": "1.31.1"}.get)
    result = find_provider(CUDA)
    assert result.broken
    assert "onnxruntime 1.31.1 and onnxruntime-gpu 1.31.1" in result.reason
    assert result.fix.startswith("pip uninstall -y onnxruntime onnxruntime-gpu")


NO_FILE = "cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("missing", "driver", "broken", "words"),
    [
        ("libcuda.so.1", (("00",), ""), False, "no NVIDIA driver here (libcuda.so.1: cannot open"),
        ("providers_cuda", (("00",), ""), True, "does not load: providers_cuda: cannot open"),
        ("", ((), ""), False, "CUDA has no device here: CUDA_VISIBLE_DEVICES='' leaves none"),
        ("", ((), "cuInit gave error 803"), True, "does not answer: cuInit gave error 803"),
    ],
)
def test_what_is_missing_is_told(
    gpu_wheel: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    missing: str,
    driver: tuple[tuple[str, ...], str],
    broken: bool,
    words: str,
) -> None:
    """A driver, a device or a package that is not here is a skip; a library that does not load is not."""
    if missing:
        gpu_wheel[missing] = f"{missing}: {NO_FILE}"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(libraries, "ask_driver", lambda *_: driver)
    result = find_provider(CUDA)
    assert (result.available, result.broken) == (False, broken)
    assert words in result.reason
    assert result.fix


def test_a_limit_on_the_speed_of_int8_on_cuda_is_refused() -> None:
    """The provider has no such kernels; of FP32 the speed may be limited."""
    backend = get_backend("ort-cuda")
    model = Model("net")
    refusal = backend.refuses_speed(EngineSpec("ort-cuda", "int8", "static", model))
    assert refusal is not None
    assert "no INT8 kernels" in str(refusal)
    assert "ort-trt" in str(refusal.fix)
    assert backend.refuses_speed(EngineSpec("ort-cuda", "fp32", None, model)) is None


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a usual machine, and the same after the test."""
    monkeypatch.setenv(OVERRIDE, "1")
    monkeypatch.delenv(OVERRIDE)


FLOAT = EngineSpec("ort-trt", "fp32", None, Model("net"))


@pytest.mark.usefixtures("environment")
def test_tf32_is_off_before_anything_is_loaded_for_the_tensorrt_provider(gpu_wheel: dict[str, str]) -> None:
    """It has no option of its own, and TensorRT keeps what it read first."""
    backend = get_backend("ort-trt")
    gpu_wheel["libcuda.so.1"] = "no such file"
    backend.before_loading(FLOAT)
    assert not is_switched_off()
    del gpu_wheel["libcuda.so.1"]
    backend.before_loading(replace(FLOAT, options=(("compute_capability", "SM89"),)))
    assert not is_switched_off()
    backend.before_loading(FLOAT)
    assert is_switched_off()


@pytest.mark.usefixtures("environment", "gpu_wheel")
@pytest.mark.parametrize("step", [0, 1, 2])
def test_every_way_to_the_tensorrt_provider_begins_with_that(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a run of pytest that plans it, too: the builder is a process that inherits the environment."""
    seen: list[bool] = []

    def find(_: str) -> Availability:
        seen.append(is_switched_off())
        raise BackendUnavailable("nothing more is looked at here")

    monkeypatch.setattr(provider, "find_provider", find)
    backend = get_backend("ort-trt")
    steps = (
        lambda: backend.availability(FLOAT),
        lambda: backend.build(FLOAT, None, tmp_path),
        lambda: backend.open(FLOAT, tmp_path),
    )
    with pytest.raises(BackendUnavailable, match="nothing more is looked at"):
        steps[step]()
    assert seen == [True]


@pytest.mark.parametrize(
    ("precision", "options", "use_tf32"), [("fp32", (), "0"), ("fp32", (("tf32", True),), "1"), ("fp16", (), "0")]
)
def test_what_the_cuda_provider_is_opened_with(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    precision: str,
    options: tuple[tuple[str, object], ...],
    use_tf32: str,
) -> None:
    """TF32 is off unless asked for, told either way, and an ingredient; half precision is a file of half precision."""
    backend = get_backend("ort-cuda")
    spec = EngineSpec("ort-cuda", precision, None, two_by_two().write(tmp_path), options=options)
    opened: list[Any] = []
    monkeypatch.setattr(gpu_engine, "OrtGpuEngine", lambda *given, **_: opened.append(given))
    folder = tmp_path / "engine"
    folder.mkdir()
    backend.check(spec)
    backend.build(spec, None, folder)
    backend.open(spec, folder)
    ((_, path, (cuda,)),) = opened
    assert cuda.options["use_tf32"] == use_tf32
    assert ("TF32" in backend.ingredients(spec)) is (use_tf32 == "1")
    weights = {tensor.data_type for tensor in onnx.load(path).graph.initializer}
    assert weights == {onnx.TensorProto.FLOAT16 if precision == "fp16" else onnx.TensorProto.FLOAT}
    with pytest.raises(UsageError, match="tf32"):
        get_backend("ort").check(EngineSpec("ort", "fp32", None, spec.model, options=(("tf32", True),)))


@pytest.mark.parametrize("backend", ["ort-cuda", "torch-cuda"])
def test_what_a_gpu_computes_is_keyed_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Card and driver: another one rounds otherwise, and its outputs are of another kind of machine."""
    import torch

    cards = iter(("NVIDIA L4 (SM89), driver 580", "NVIDIA T4 (SM75), driver 580"))
    for place in ("ort.gpu", "torch"):
        monkeypatch.setattr(f"pytest_quant.backends.{place}.gpu_kind", lambda _: next(cards))
    module = Model.from_torch(torch.nn.Linear(2, 2), (torch.zeros(1, 2),))
    spec = EngineSpec(backend, "fp32", None, module if backend == "torch-cuda" else two_by_two().write(tmp_path))
    first, second = (get_backend(backend).ingredients(spec) for _ in range(2))
    assert {name for name in first if first[name] != second[name]} == {"GPU"}
