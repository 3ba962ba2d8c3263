"""A fake of ONNX Runtime's TensorRT provider: a session on the CPU that keeps engines in a folder as the provider does.

Its engines are files of a few bytes. It computes every graph as the CPU does, writes to native standard error what the
provider writes when it builds, and leaves nodes to CUDA that the environment names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest

from pytest_quant.backends import Availability
from pytest_quant.backends.ort.libraries import CUDA, TENSORRT
from pytest_quant.backends.ort.session import Provider
from pytest_quant.backends.trt import provider, provider_engine
from pytest_quant.backends.trt.coverage import COMPUTE_OPS

LEFT = "FAKE_ORT_TRT_LEFT"
"""Names of the nodes that are left to CUDA, with commas between."""

SM = "FAKE_ORT_TRT_SM"
"""Compute capability, part of the names of engines."""

SAYS = "FAKE_ORT_TRT_SAYS"
"""Another line of its log."""

READS = "FAKE_ORT_TRT_READS"
"""Type that products read; empty for a log that lists no layers."""

CRASHES = "FAKE_ORT_TRT_CRASHES"

_REAL = onnxruntime.InferenceSession
_PREFIX = "\x1b[0;93m2026-11-22 17:17:35.343285551 [W:onnxruntime:Default, tensorrt_execution_provider.h:93 log] "
_STAMP = "[2026-11-22 17:17:35 "


@dataclass(frozen=True)
class Part:
    """Nodes of one provider, as ONNX Runtime tells of them."""

    ep_name: str
    nodes: tuple[Any, ...]

    def get_nodes(self) -> tuple[Any, ...]:
        """As ONNX Runtime spells it."""
        return self.nodes


class FakeSession:
    """Builds where the folder holds no engine of its name, else reads it."""

    def __init__(self, path: str, settings: Any, options: Mapping[str, str]) -> None:
        self._inner = _REAL(path, settings, providers=["CPUExecutionProvider"])
        suffix = "_int8" if options["trt_int8_enable"] == "1" else ""
        name = f"TensorrtExecutionProvider_TRTKernel_graph_net_123_0_0{suffix}_sm{os.environ.get(SM, '89')}"
        cache = Path(options["trt_engine_cache_path"])
        engine = cache / f"{name}.engine"
        if engine.exists():
            engine.read_bytes()
            return
        if CRASHES in os.environ:
            os.abort()
        engine.write_bytes(b"an engine")
        if any(key.startswith("trt_profile_") for key in options):
            (cache / f"{name}.profile").write_bytes(b"a profile")
        os.write(2, _log(path, options).encode())

    def get_providers(self) -> list[str]:
        """Return what was asked for."""
        return [TENSORRT, CUDA, "CPUExecutionProvider"]

    def get_provider_graph_assignment_info(self) -> Sequence[Part]:
        """Return TensorRT's nodes and those that are left to CUDA."""
        names = os.environ.get(LEFT, "").split(",")
        nodes = [node for part in self._inner.get_provider_graph_assignment_info() for node in part.get_nodes()]
        taken = tuple(node for node in nodes if node.name not in names)
        left = tuple(node for node in nodes if node.name in names)
        return [Part(name, some) for name, some in ((TENSORRT, taken), (CUDA, left)) if some]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _log(path: str, options: Mapping[str, str]) -> str:
    lines = [f"{_PREFIX}{_STAMP}WARNING] {os.environ[SAYS]}\x1b[m"] if SAYS in os.environ else []
    reads = os.environ.get(READS, "Int8" if options["trt_int8_enable"] == "1" else "Float")
    if reads and options.get("trt_detailed_build_log") == "1":
        lines += [f"{_PREFIX}{_STAMP}UNKNOWN] Tactic: 0x1 Time: 0.006\x1b[m"]
        lines += [f"{_PREFIX}{_STAMP}UNKNOWN] Engine Layer Information:"]
        lines += [
            f"Layer(CaskConvolution): {node.name} + relu, Tactic: 0x01, x ({reads}[8,8]) -> y ({reads}[8,8])"
            for node in onnx.load(path, load_external_data=False).graph.node
            if node.op_type in COMPUTE_OPS and node.name not in os.environ.get(LEFT, "").split(",")
        ]
        lines += ["\x1b[m"]
    return "".join(f"{line}\n" for line in lines)


def _open(path: str, *settings: Any, **others: Any) -> Any:
    name, options = next((each for each in others.get("providers") or () if not isinstance(each, str)), ("", {}))
    return FakeSession(path, settings[0], options) if name == TENSORRT else _REAL(path, *settings, **others)


def _find(_: str) -> Availability:
    return Availability(True, version="fake", device="cuda:0")


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the provider be here in this process, and in the one that builds."""
    monkeypatch.setattr(provider, "find_provider", _find)
    monkeypatch.setattr(onnxruntime, "InferenceSession", _open)
    monkeypatch.setattr(provider_engine, "open_here", open_with_fake)


def open_with_fake(model: Path, providers: Sequence[Provider]) -> None:
    """Build as the provider would, in a process that is made for it."""
    vars(provider_engine)["find_provider"] = _find
    vars(onnxruntime)["InferenceSession"] = _open
    provider_engine.open_here(model, providers)
