"""The time of each layer in OpenVINO, by the counters of its CPU plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from pytest_quant.backends.coverage import precision_of
from pytest_quant.backends.layers import LayerTime, Role, medians, warm_runs
from pytest_quant.backends.onnx_files import model_file, normalized
from pytest_quant.backends.openvino.coverage import CONVERSIONS, layers_of
from pytest_quant.backends.openvino.files import is_own
from pytest_quant.backends.ort.lineage import nodes_behind
from pytest_quant.spec import Model

COUNTING: Mapping[str, object] = {"PERF_COUNT": True}
"""The setting of the CPU plugin that counts times; kernels and layouts are the same with it."""

_RAN = "EXECUTED"
_MS_PER_S = 1e3
_AT_TIMES = frozenset({"Convert", "Transpose"})
"""Reformats only where they come from no node of the model: the plugin adds them, and so do users."""


def time_layers(compiled: Any, inputs: Mapping[int, Any], model: Model) -> tuple[LayerTime, ...]:
    """Run a compiled model again and again, and return the median time of each layer that ran, in their order.

    Parameters
    ----------
    compiled : an ``openvino.CompiledModel`` with the setting `COUNTING`.
    inputs : one batch, by the place of each input.
    model : the user's, whose nodes are the source of the layers.
    """
    request = compiled.create_infer_request()
    kinds: dict[str, tuple[str, str]] = {}

    def run() -> dict[str, float]:
        request.infer(inputs)
        ran = [info for info in request.get_profiling_info() if info.status.name == _RAN]
        kinds.update((info.node_name, (info.node_type, info.exec_type)) for info in ran)
        return {info.node_name: _MS_PER_S * info.real_time.total_seconds() for info in ran}

    found = medians(warm_runs(run))
    origins = {layer.name: layer.origins for layer in layers_of(compiled.get_runtime_model())}
    named = [() if kinds[name][0] in CONVERSIONS else origins.get(name, ()) for name in found]
    nodes = named if is_own(model) else _nodes(model, named)
    return tuple(layer_time(name, *kinds[name], found[name], own) for name, own in zip(found, nodes, strict=True))


def layer_time(name: str, kind: str, kernel: str, ms: float, nodes: tuple[str, ...]) -> LayerTime:
    """Return one layer.

    Parameters
    ----------
    name, kind, kernel : as the counters spell them; the last word of a kernel is often what it multiplies in.
    ms : milliseconds.
    nodes : of the user's model, that it stands for.
    """
    moves = kind in CONVERSIONS or (kind in _AT_TIMES and not nodes)
    role: Role = "reformat" if moves else "compute" if nodes else "other"
    return LayerTime(name, kind, precision_of(kernel.rpartition("_")[2]), ms, nodes, role)


def _nodes(model: Model, named: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    graph = normalized(onnx.load(model_file(model), load_external_data=False)).graph
    return nodes_behind(graph, named)
