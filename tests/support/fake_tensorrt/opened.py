"""The plugin's own engine over a fake TensorRT."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.trt.build import LOG_FILE, PLAN_FILE
from pytest_quant.backends.trt.engine import GpuEngine
from pytest_quant.backends.trt.network import GRAPH_FILE
from pytest_quant.spec import EngineSpec, Model
from tests.support.fake_tensorrt.device import HostMemory
from tests.support.fake_tensorrt.engine import COLUMNS
from tests.support.fake_tensorrt.module import make
from tests.support.models import parsed

PLAN = b"plan of some bytes"


def feeds_of(rows: int, seed: int = 0) -> Feeds:
    """Inputs of the fixed computation."""
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(rows, COLUMNS)).astype(np.float32), "ids": rng.integers(0, 2**40, rows)}


def write_engine(
    folder: Path, *, log: str = "", plan: bytes = PLAN, width: int | str = COLUMNS, **options: Any
) -> EngineSpec:
    """Write the files of a built engine, and return its spec.

    Parameters
    ----------
    folder : gets graph, plan and log.
    log : of the build.
    plan : the plan's bytes; the fake takes none for a plan of another version.
    width : of the input ``x``, a name where it is free.
    options : of the mark.
    """
    graph = f"""(float[n, {width}] x, int64[m] ids) => (float[n, {COLUMNS}] y, int64[n] next) {{
        [product] y = MatMul(x, x) [hand] next = Identity(ids)
    }}"""
    model = Model.from_onnx(parsed(folder / GRAPH_FILE, graph))
    (folder / PLAN_FILE).write_bytes(plan)
    (folder / LOG_FILE).write_text(log)
    return EngineSpec("trt", "int8", "static", model, options=tuple(sorted(options.items())))


@contextmanager
def opened(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    major: int = 10,
    device: HostMemory | None = None,
    written: dict[str, Any] | None = None,
    **changes: Any,
) -> Iterator[tuple[GpuEngine, Any, Any]]:
    """Open an engine over the fake module of that version; `written` goes to `write_engine`, `changes` to its `Plan`.

    What the engine made is given back when it closes, and every native object ended in its CUDA context.
    """
    device = device or HostMemory()
    module = make(device, major, **changes)
    monkeypatch.setitem(sys.modules, "tensorrt", module)
    spec = write_engine(folder, **(written or {}))
    with GpuEngine(spec, folder, device) as engine:
        yield engine, device, module
    assert not [line for line in module._machine.ended if "outside" in line]
    assert device.cuda._broken is not None or device.cuda.held() == {}
