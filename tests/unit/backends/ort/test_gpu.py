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
from pytest_quant.testing.conformance.examples import conv, two_by_two
from pytest_quant.testing.conformance.workbench import sqnr_db

PROVIDERS = [TENSORRT, CUDA, "CPUExecutionProvider"]


@pytest.fixture
def gpu_wheel(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Let the GPU wheel be installed, and every library load but those the test names with the loader's words."""
    trouble: dict[str, str] = {}
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: PROVIDERS)
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None, raising=False)
    monkeypatch.setattr(libraries, "installed_version", {"onnxruntime-gpu": "1.31.1"}.get)
    monkeypatch.setattr(libraries, "has_nvml", lambda: True)
    monkeypatch.setattr(libraries, "ask_driver", lambda *_: (("00",), ""))

    def loading_trouble(library: str) -> str:
        return next((words for name, words in trouble.items() if name in library), "")

    for module in (provider, libraries):
        monkeypatch.setattr(module, "loading_trouble", loading_trouble)
    return trouble


@pytest.mark.parametrize("provider", [CUDA, TENSORRT])
def test_the_cpu_wheel_has_none(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not installed is a skip with the line that installs it, not an error."""
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    monkeypatch.setattr(libraries, "installed_version", {"onnxruntime": "1.31.1"}.get)
    found = find_provider(provider)
    assert not found.available
    assert not found.broken
    assert "CPU wheel" in found.reason
    assert "pip install" in found.fix


def test_both_wheels_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """They overwrite each other's files, so what loads is not what pip shows."""
    monkeypatch.setattr(libraries, "installed_version", {"onnxruntime": "1.31.1", "onnxruntime-gpu": "1.31.1"}.get)
    found = find_provider(CUDA)
    assert found.broken
    assert "onnxruntime 1.31.1 and onnxruntime-gpu 1.31.1" in found.reason
    assert found.fix.startswith("pip uninstall -y onnxruntime onnxruntime-gpu")


def test_a_machine_without_a_driver(gpu_wheel: dict[str, str]) -> None:
    """The provider is compiled in, and there is nothing that it could run on."""
    gpu_wheel["libcuda.so.1"] = "libcuda.so.1: cannot open shared object file: No such file or directory"
    found = find_provider(CUDA)
    assert not found.available
    assert not found.broken
    assert "no NVIDIA driver here (libcuda.so.1: cannot open" in found.reason


def test_a_provider_that_does_not_load(gpu_wheel: dict[str, str]) -> None:
    """With a driver here it is broken, and the loader's own words are quoted."""
    gpu_wheel["providers_cuda"] = "libcudnn.so.9: cannot open shared object file: No such file or directory"
    found = find_provider(CUDA)
    assert found.broken
    assert "libcudnn.so.9" in found.reason
    assert "onnxruntime-gpu[cuda,cudnn]" in found.fix


@pytest.mark.parametrize("provider", [CUDA, TENSORRT])
def test_a_machine_whose_devices_are_hidden(
    gpu_wheel: dict[str, str], monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    """All libraries load and CUDA has no device: a skip that names the variable, and no error of a session."""
    assert gpu_wheel == {}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(libraries, "ask_driver", lambda *_: ((), ""))
    found = find_provider(provider)
    assert (found.available, found.broken) == (False, False)
    assert found.reason == "CUDA has no device here: CUDA_VISIBLE_DEVICES='' leaves none"


def test_a_driver_that_does_not_answer(gpu_wheel: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is here and of no use, which is no skip; its own words are quoted."""
    assert gpu_wheel == {}
    monkeypatch.setattr(libraries, "ask_driver", lambda *_: ((), "cuInit gave error 803"))
    found = find_provider(CUDA)
    assert (found.available, found.broken) == (False, True)
    assert found.reason.endswith("cuInit gave error 803")


def test_everything_is_here(gpu_wheel: dict[str, str]) -> None:
    """With nothing missing the device is named."""
    assert gpu_wheel == {}
    assert find_provider(CUDA).device == "cuda:0"


def test_without_nvml_no_gpu_is_told_from_another(gpu_wheel: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of two kinds of GPU would be compared; the line that brings the package is told."""
    assert gpu_wheel == {}
    monkeypatch.setattr(libraries, "has_nvml", lambda: False)
    found = find_provider(CUDA)
    assert (found.available, found.broken) == (False, False)
    assert found.reason.startswith("nvidia-ml-py is not installed")
    assert found.fix == 'pip install "pytest-quant[gpu]"'


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
@pytest.mark.parametrize("step", ["availability", "build", "open"])
def test_every_way_to_the_tensorrt_provider_begins_with_that(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a run of pytest that plans it, too: the builder is a process that inherits the environment."""
    seen: list[bool] = []

    def find(_: str) -> Availability:
        seen.append(is_switched_off())
        return Availability(False, reason="nothing more is looked at here")

    monkeypatch.setattr(provider, "find_provider", find)
    backend = get_backend("ort-trt")
    if step == "availability":
        assert not backend.availability(FLOAT).available
    elif step == "build":
        with pytest.raises(BackendUnavailable, match="nothing more is looked at"):
            backend.build(FLOAT, None, tmp_path)
    else:
        with pytest.raises(BackendUnavailable, match="nothing more is looked at"):
            backend.open(FLOAT, tmp_path)
    assert seen == [True]


@pytest.mark.parametrize(("options", "use_tf32"), [((), "0"), ((("tf32", True),), "1")])
def test_tf32_is_an_option_of_the_cuda_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[tuple[str, object], ...], use_tf32: str
) -> None:
    """Off unless asked for, told to the provider either way, and part of what the engine computes."""
    backend = get_backend("ort-cuda")
    model = two_by_two().write(tmp_path)
    spec = EngineSpec("ort-cuda", "fp32", None, model, options=options)
    opened: list[Any] = []
    monkeypatch.setattr(gpu_engine, "OrtGpuEngine", lambda *given, **_: opened.append(given[2]))
    backend.check(spec)
    backend.build(spec, None, tmp_path)
    backend.open(spec, tmp_path)
    ((provider,),) = opened
    assert provider.options["use_tf32"] == use_tf32
    assert ("TF32" in backend.ingredients(spec)) is (use_tf32 == "1")


def test_a_cuda_graph_is_an_option_of_ort_cuda_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reaches the engine; on the CPU there is nothing to capture."""
    model = two_by_two().write(tmp_path)
    opened: list[bool] = []
    monkeypatch.setattr(gpu_engine, "OrtGpuEngine", lambda *_, graphs, **__: opened.append(graphs))
    backend = get_backend("ort-cuda")
    for options in ((), (("cuda_graph", True),)):
        spec = EngineSpec("ort-cuda", "fp32", None, model, options=options)
        backend.check(spec)
        backend.open(spec, tmp_path)
    assert opened == [False, True]
    with pytest.raises(UsageError, match="cuda_graph"):
        get_backend("ort").check(EngineSpec("ort", "fp32", None, model, options=(("cuda_graph", True),)))


def test_half_precision_on_cuda_is_a_file_of_half_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The products read float16, inputs and outputs are the model's own, and it computes the model to eleven bits."""
    example = conv()
    backend = get_backend("ort-cuda")
    spec = EngineSpec("ort-cuda", "fp16", None, example.write(tmp_path))
    backend.check(spec)
    folder = tmp_path / "engine"
    folder.mkdir()
    backend.build(spec, None, folder)
    opened: list[Path] = []
    monkeypatch.setattr(gpu_engine, "OrtGpuEngine", lambda *given, **_: opened.append(given[1]))
    backend.open(spec, folder)
    (path,) = opened
    graph = onnx.load(path).graph
    weights = [tensor.data_type for tensor in graph.initializer if len(tensor.dims) > 1]
    assert set(weights) == {onnx.TensorProto.FLOAT16}
    assert {value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)} == {onnx.TensorProto.FLOAT}
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = example.feeds(8, 1)
    found = dict(zip(("y",), session.run(["y"], feeds), strict=True))
    assert sqnr_db(example.compute(feeds), found) > 50
    assert backend.ingredients(spec) != backend.ingredients(replace(spec, precision="fp32"))
    assert backend.refuses_speed(spec) is None


def test_builds_on_the_gpu_choose_kernels_by_their_time() -> None:
    """They need the device alone; those for a named target, and ONNX Runtime's graphs for CUDA, do not."""
    backend = get_backend("ort-trt")
    spec = EngineSpec("ort-trt", "fp32", None, Model("net"))
    assert backend.tunes(spec)
    assert not backend.tunes(replace(spec, options=(("compute_capability", "SM89"),)))
    assert not get_backend("ort-cuda").tunes(replace(spec, backend="ort-cuda"))
