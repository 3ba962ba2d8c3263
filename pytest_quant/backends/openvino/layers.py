"""The time of each layer in OpenVINO, by the counters of its CPU plugin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx

from pytest_quant.backends.layers import LayerTime, Role, medians, warm_runs
from pytest_quant.backends.onnx_files import model_file, normalized
from pytest_quant.backends.openvino.coverage import layers_of
from pytest_quant.backends.openvino.files import is_own
from pytest_quant.backends.ort.lineage import finder
from pytest_quant.spec import Model

COUNTING: Mapping[str, object] = {"PERF_COUNT": True}
"""The setting of the CPU plugin that counts times; kernels and layouts are the same with it."""

_RAN = "EXECUTED"
_MS_PER_S = 1e3
_REFORMATS = frozenset({"FakeQuantize", "Reorder"})
_AT_TIMES = frozenset({"Convert", "Transpose"})
"""Reformats only where they come from no node of the model: the plugin adds them, and so do users."""

_PRECISIONS = {"f32": "fp32", "f16": "fp16", "bf16": "bf16", "f64": "fp64", "i8": "int8", "u8": "int8", "i4": "int4"}


def time_layers(compiled: Any, inputs: Mapping[int, Any], model: Model) -> tuple[LayerTime, ...]:
    """Run a compiled model again and again, and return the median time of each layer that ran, in their order.

    Parameters
    ----------
    compiled : an ``openvino.CompiledModel`` with the setting `COUNTING`.
    inputs : one batch, by the place of each input.
    model : the user's, whose nodes are the source of the layers.
    """
    request = compiled.create_infer_request()
    find = _finder(model)
    origins = {layer.name: layer.origins for layer in layers_of(compiled.get_runtime_model())}
    kinds: dict[str, tuple[str, str]] = {}

    def run() -> dict[str, float]:
        request.infer(inputs)
        ran = [info for info in request.get_profiling_info() if info.status.name == _RAN]
        kinds.update((info.node_name, (info.node_type, info.exec_type)) for info in ran)
        return {info.node_name: _MS_PER_S * info.real_time.total_seconds() for info in ran}

    return tuple(
        layer_time(name, *kinds[name], ms, origins.get(name, ()), find) for name, ms in medians(warm_runs(run)).items()
    )


def layer_time(
    name: str, kind: str, kernel: str, ms: float, origins: tuple[str, ...], find: Callable[[str], str | None]
) -> LayerTime:
    """Return one layer.

    Parameters
    ----------
    name, kind, kernel : as the counters spell them; the last word of a kernel is often what it multiplies in.
    ms : milliseconds.
    origins : names of the operators of the compiled model that became part of it.
    find : returns the node of the user's model that such a name is built on.
    """
    word = kernel.rpartition("_")[2].lower()
    nodes = tuple(dict.fromkeys(node for one in origins if (node := find(one)) is not None))
    moves = kind in _REFORMATS or (kind in _AT_TIMES and not nodes)
    role: Role = "reformat" if moves else "compute" if nodes else "other"
    return LayerTime(name, kind, _PRECISIONS.get(word, word), ms, () if moves else nodes, role)


def _finder(model: Model) -> Callable[[str], str | None]:
    if is_own(model):
        return lambda name: name
    return finder(normalized(onnx.load(model_file(model), load_external_data=False)).graph)
