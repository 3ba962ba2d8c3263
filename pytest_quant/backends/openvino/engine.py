"""One compiled model on the CPU, what a check asks of it, and the times of its layers by the plugin's counters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pytest_quant.backends.base import Engine, Feeds, Outputs
from pytest_quant.backends.offer import seven_bits_note
from pytest_quant.backends.onnx_files import model_file, read_nodes
from pytest_quant.backends.onnx_files.lineage import excluded_among, find_user_nodes
from pytest_quant.backends.onnx_files.normalize import normalize_model
from pytest_quant.backends.openvino import PLUGIN, parse_options
from pytest_quant.backends.openvino.coverage import CONVERSIONS, PROVIDER, RECURRENT, layers_of, measure_coverage
from pytest_quant.backends.openvino.files import (
    ENGINE_FILE,
    WEIGHTS_FILE,
    is_own,
    read_model,
    signature_of,
    translate_errors,
)
from pytest_quant.backends.openvino.quantize import IN_FLOAT, rename_operations
from pytest_quant.backends.readback import FOUR_BITS, LayerTime, Role, medians, precision_of, warm_runs
from pytest_quant.backends.runtime import name_errors
from pytest_quant.environment.machine import has_vnni, onednn_tier
from pytest_quant.errors import BuildError
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec

GROUP = "DYNAMIC_QUANTIZATION_GROUP_SIZE"


def compile_model(model: Any, spec: EngineSpec, beside: Mapping[str, object] | None = None) -> Any:
    """Compile `model` for the CPU, with every setting fixed that changes results or times.

    Where only the weights of a layer are int8, a CPU with VNNI rounds its inputs as it runs. A float engine does not;
    one of int8 does as OpenVINO does by itself, which is what is deployed, unless an option says otherwise.

    Parameters
    ----------
    model : an ``openvino.Model``.
    spec : its options give the number of threads, its scheme decides on the advice in an error.
    beside : additional settings of the CPU plugin, which replace those of the same name; ``None`` for none.

    Returns
    -------
    An ``openvino.CompiledModel``.

    Raises
    ------
    BuildError : OpenVINO refuses the model, or would compute in a shorter float than float32.
    """
    import openvino

    options = parse_options(spec.options)
    group = 0 if spec.precision == "fp32" else options.dynamic_quantization
    rounds = {} if group is None else {GROUP: group}
    settings = {**PLUGIN, "INFERENCE_NUM_THREADS": options.threads, **rounds, **(beside or {})}
    step = ("to compile the quantized model", IN_FLOAT) if spec.scheme == "static" else ("to compile the model",)
    with translate_errors(*step):
        compiled = openvino.Core().compile_model(model, PROVIDER, settings)
        precision = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    if precision != "f32":
        raise BuildError(
            "OpenVINO does not keep to float32",
            value=f"INFERENCE_PRECISION_HINT reads back as {precision}",
            allowed="f32",
            fix="unset the variables and configuration files that change OpenVINO's defaults",
        )
    return compiled


def seven_bits_notes(spec: EngineSpec) -> tuple[str, ...]:
    """Say that weights got seven bits although the user did not ask for it."""
    options = parse_options(spec.options)
    if spec.scheme != "static" or options.overflow_fix is not None or options.seven_bits(spec.cpus) != "enable":
        return ()
    return (seven_bits_note(spec, "weights", onednn_tier(), "'overflow_fix': 'disable'"),)


def _cells_note(spec: EngineSpec, model: Any) -> Iterator[str]:
    cells = [each.get_friendly_name() for each in model.get_ordered_ops() if each.get_type_name() in RECURRENT]
    if cells and spec.scheme == "static":
        yield f"recurrent cells are left in float, for which OpenVINO has no int8 kernel: {', '.join(cells)}"


def _width_notes(compiled: Any, precision: str) -> Iterator[str]:
    """Say that weights have four bits although `precision` is int8, and how many layers round their inputs as they run.

    The runtime model shows those as products in float.
    """
    group = int(compiled.get_property(GROUP))
    dense = [layer for layer in layers_of(compiled.get_runtime_model()) if layer.kind == "FullyConnected"]
    held = [layer for layer in dense if layer.input_types[0] == "f32" != layer.input_types[1]]
    widths = sorted({precision_of(layer.input_types[1]) for layer in held})
    if "int4" in widths and precision == "int8":
        yield FOUR_BITS
    if group and held and has_vnni(onednn_tier()):
        yield (
            f"OpenVINO rounds the float inputs of layers with {' or '.join(widths)} weights ({len(held)}) in groups of "
            f"{group} as it runs, and reports what is no int4 as float, as coverage counts it; "
            "options={'dynamic_quantization': 0} prevents it"
        )


class OpenVinoEngine(Engine):
    """A compiled model with one request, run synchronously."""

    provider = PROVIDER

    def __init__(self, spec: EngineSpec, folder: Path) -> None:
        self.spec = spec
        self.signature = signature_of(spec.quantized or spec.model)
        self.size_bytes = sum((folder / name).stat().st_size for name in (ENGINE_FILE, WEIGHTS_FILE))
        self.threads = parse_options(spec.options).threads
        self._file = folder / ENGINE_FILE
        self._model: Any = rename_operations(read_model(self._file), spec.quantized or spec.model)
        self._compiled: Any = compile_model(self._model, spec)
        self.notes = (
            *seven_bits_notes(spec),
            *_cells_note(spec, self._model),
            *_width_notes(self._compiled, spec.precision),
        )
        self._request: Any = self._compiled.create_infer_request()

    def _run(self, feeds: Feeds) -> Outputs:
        """Run one batch; the request copies what it returns."""
        with translate_errors(f"a run of {self.spec.id}"):
            results = self._request.infer(self._place_feeds(feeds))
        return {tensor.name: results[index] for index, tensor in enumerate(self.signature.outputs)}

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return the request's own `infer` over `feeds`."""
        return partial(self._request.infer, self._place_feeds(feeds))

    def _place_feeds(self, feeds: Feeds) -> dict[int, Any]:
        return {index: feeds[tensor.name] for index, tensor in enumerate(self.signature.inputs)}

    def _layer_times(self, feeds: Feeds) -> tuple[LayerTime, ...]:
        """Compile the model once more with counters, and return the median time of each layer that ran."""
        # Kernels and layouts are the same with it.
        compiled = compile_model(read_model(self._file), self.spec, {"PERF_COUNT": True})
        request, inputs = compiled.create_infer_request(), self._place_feeds(feeds)
        kinds: dict[str, tuple[str, str]] = {}

        def run() -> dict[str, float]:
            request.infer(inputs)
            ran = [info for info in request.get_profiling_info() if info.status.name == "EXECUTED"]
            kinds.update((info.node_name, (info.node_type, info.exec_type)) for info in ran)
            return {info.node_name: 1e3 * info.real_time.total_seconds() for info in ran}

        with translate_errors(f"a profiled run of {self.spec.id}"):
            times = medians(warm_runs(run))
            origins = {layer.name: layer.origins for layer in layers_of(compiled.get_runtime_model())}
        named = [() if kinds[name][0] in CONVERSIONS else origins.get(name, ()) for name in times]
        model = self.spec.quantized or self.spec.model
        if not is_own(model):
            named = find_user_nodes(normalize_model(read_nodes(model_file(model))).graph, named)
        return tuple(layer_time(name, *kinds[name], times[name], own) for name, own in zip(times, named, strict=True))

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Compile the model once more for the shapes of `feeds` and count its products by their precision."""
        model = self._model.clone()
        with name_errors(f"OpenVINO could not fix the shapes of {self.spec.id} to the shapes of the data"):
            model.reshape({index: list(np.shape(array)) for index, array in self._place_feeds(feeds).items()})
        coverage = measure_coverage(model, self.spec.precision, partial(compile_model, model, self.spec))
        is_static = self.spec.scheme == "static"
        return coverage if is_static else replace(coverage, scheme_pct=coverage.pct, not_quantizable={})

    def _excluded_among(self, names: Collection[str]) -> Sequence[str]:
        return super()._excluded_among(names) if is_own(self.spec.model) else excluded_among(self, names)

    def _close(self) -> None:
        self._request = self._compiled = self._model = None


def layer_time(name: str, kind: str, kernel: str, ms: float, nodes: tuple[str, ...]) -> LayerTime:
    """Return one layer.

    Parameters
    ----------
    name, kind, kernel : as the counters spell them; the last word of a kernel is often what it multiplies in.
    ms : milliseconds.
    nodes : of the user's model, that it stands for.
    """
    # The plugin adds the last two, and so do users.
    moves = kind in CONVERSIONS or (kind in ("Convert", "Transpose") and not nodes)
    role: Role = "reformat" if moves else "compute" if nodes else "other"
    return LayerTime(name, kind, precision_of(kernel.rpartition("_")[2]), ms, nodes, role)
