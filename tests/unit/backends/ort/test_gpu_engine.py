"""Layers on a GPU are profiled in a process that waits for each kernel, and that loads its libraries anew."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import Availability, Feeds
from pytest_quant.backends.ort import gpu_engine
from pytest_quant.backends.ort.gpu_engine import time_here, time_layers_on_gpu
from pytest_quant.backends.ort.libraries import CUDA, TENSORRT
from pytest_quant.backends.ort.session import ON_CPU, Provider
from pytest_quant.errors import BuildError
from tests.support.models import select_first


def report_process(engine: Path, _model: Path, providers: Sequence[Provider], _feeds: Feeds) -> tuple[object, ...]:
    """Stand in for `time_here`, and tell what the process that runs it was given."""
    return os.getpid(), os.environ.get("CUDA_LAUNCH_BLOCKING"), engine, providers


def test_on_a_gpu_each_kernel_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a process of its own, whose driver is not in use yet."""
    monkeypatch.setattr(gpu_engine, "time_here", report_process)
    asked = Provider("CUDAExecutionProvider", {"device_id": "1"})
    told: tuple[object, ...] = time_layers_on_gpu(tmp_path, tmp_path, [asked], {})
    pid, waits, engine, providers = told
    assert pid != os.getpid()
    assert (waits, os.environ.get("CUDA_LAUNCH_BLOCKING")) == ("1", None)
    assert (engine, providers) == (tmp_path, [asked])


def test_that_process_hands_back_layers_and_errors(tmp_path: Path) -> None:
    """On the CPU provider, which every wheel has."""
    model = select_first(tmp_path / "model.onnx")
    feeds = {"x": np.zeros((2, 8), np.float32)}
    (layer,) = time_layers_on_gpu(model, model, ON_CPU, feeds)
    assert (layer.name, layer.nodes, layer.role) == ("scores", ("scores",), "compute")
    with pytest.raises(BuildError, match=r"refused the model absent\.onnx") as raised:
        time_layers_on_gpu(tmp_path / "absent.onnx", model, ON_CPU, feeds)
    assert raised.value.fix


def test_the_process_loads_what_the_providers_want(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is a new one: libraries that this process has loaded are not there. The CPU provider wants none."""
    loaded: list[object] = []

    def find(provider: str) -> Availability:
        loaded.append(provider)
        return Availability(True)

    def times(*arguments: object) -> tuple[()]:
        loaded.append(arguments)
        return ()

    monkeypatch.setattr(gpu_engine, "find_provider", find)
    monkeypatch.setattr(gpu_engine, "time_layers", times)
    providers = [Provider(TENSORRT), Provider(CUDA), *ON_CPU]
    time_here(tmp_path, tmp_path, providers, {})
    assert loaded == [TENSORRT, CUDA, (tmp_path, tmp_path, providers, {})]


def test_a_provider_that_does_not_load_there_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the reason, and the line that mends it."""
    missing = Availability(False, reason="libcudnn.so.9 is missing", fix="pip install it")
    monkeypatch.setattr(gpu_engine, "find_provider", lambda _: missing)
    with pytest.raises(BuildError, match="CUDAExecutionProvider does not load in the process") as raised:
        time_here(tmp_path / "model.onnx", tmp_path, [Provider(CUDA)], {})
    assert (raised.value.value, raised.value.fix) == ("libcudnn.so.9 is missing", "pip install it")
