"""ONNX Runtime's TensorRT provider: what it is asked for, the build in a process of its own, and its sessions.

Opening a session builds the engines where there are none in the provider's folder; what TensorRT says meanwhile goes to
native standard error. A native crash ends that process and no other.

The provider builds without the detailed verbosity (no option of version 1.31 asks for it), so that the inspector of its
engines gives names only. With its option ``trt_detailed_build_log`` TensorRT logs one line for each layer of an engine
that it builds, with the types that the layer reads and writes::

    Layer(CaskConvolution): conv1 + relu1, Tactic: 0x47, x (Int8[1,3:4,64,64]) -> y (Int8[1,32:32,64,64])

The types of a tensor stand in brackets behind its name, directly in versions before 10. A fused layer has the names of
its nodes, joined by ``+``; one that Myelin compiled has the first and the last only, and cannot be seen into.

The provider reads engines from a folder, and writes into it whenever it does not like what it finds there: another GPU
has other names of files, other shapes are another engine. An entry of the cache must not change, so it gets a copy.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.child_process import ChildError, call_in_child
from pytest_quant.backends.onnx_files import read_nodes, read_signature
from pytest_quant.backends.ort.gpu_engine import OrtGpuEngine
from pytest_quant.backends.ort.libraries import CUDA, CUDA_OPTIONS, TENSORRT, find_provider
from pytest_quant.backends.ort.macs import FLOAT_OPS, PRODUCT_OPS
from pytest_quant.backends.ort.session import Provider, open_session
from pytest_quant.backends.readback import Kind, Tallied
from pytest_quant.backends.runtime import wrap_error
from pytest_quant.backends.trt.build import LAYERS_FILE, LOG_FILE, build_notes
from pytest_quant.backends.trt.coverage import Layer, count_layers, macs_by_node, ops_of, read_layers
from pytest_quant.backends.trt.network import GRAPH_FILE, profile_of
from pytest_quant.backends.trt.options import Range, float_type, operators_of, options_of
from pytest_quant.errors import BuildError, UsageError
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec

LISTS_LAYERS = "trt_detailed_build_log"
_NEXT = "backend='trt' takes the graph whole or says what it cannot; pytest-quant doctor lists what is installed"


def build_engines(model: Path, providers: Sequence[Provider], folder: Path, name: str) -> None:
    """Build the engines of a model into the folder that the options of the first provider name.

    Parameters
    ----------
    model : the ONNX file.
    providers : as a session is asked for them, the shapes to build for among their options.
    folder : gets the log and the layers that it lists, beside the engines.
    name : of the engine, for errors.

    Raises
    ------
    BuildError : the provider does not load, ONNX Runtime refuses the model, or the process crashed or did not end.
    """
    first, *others = providers
    # It lists the layers; sessions that find the engines built have nothing to log.
    listing = Provider(first.name, {**first.options, LISTS_LAYERS: "1"})
    try:
        _, log = call_in_child(open_here, model, [listing, *others])
    except ChildError as ended:
        did = f"refused to build {name}" if ended.error else f"did not build {name}: it {ended.how}"
        raise wrap_error(
            f"ONNX Runtime's TensorRT provider {did}",
            ended.said,
            value=str(ended.error or readable_log(ended.said)[-600:]) or "it said nothing",
            fix=_NEXT,
        ) from ended
    (folder / LOG_FILE).write_text(readable_log(log), encoding="utf-8")
    layers = layers_in_summary(log, ops_of(read_nodes(model).graph))
    (folder / LAYERS_FILE).write_bytes(msgspec.json.encode(layers))


def open_here(model: Path, providers: Sequence[Provider]) -> None:
    """Load the provider's libraries into this process, which is a new one, and build as a session opens."""
    support = find_provider(TENSORRT)
    if not support.available:
        raise BuildError(support.reason)
    open_session(model, providers)


_LINE = re.compile(
    r"^Layer\((?P<kind>[^)]*)\): (?P<name>.+?), Tactic: (?P<tactic>[^,]*), (?P<inputs>.*?) ?-> (?P<outputs>.*)$"
)
_TYPE = re.compile(r"[\[(](Float|Half|BFloat16|Int8|Int4|FP8|UInt8|Int32|Int64|Bool)[\[(]")
_COLORS = re.compile(r"\x1b\[[\d;]*m")
_VERBOSE = " UNKNOWN] "
"""How the provider marks a line of TensorRT's verbose log, for whose severity it has no word."""


def readable_log(log: str) -> str:
    """Return the log of a build without colors and without what only TensorRT's developers read; layers stay."""
    plain = _COLORS.sub("", log)
    return "".join(f"{line}\n" for line in plain.splitlines() if _VERBOSE not in line)


def layers_in_summary(log: str, nodes: Iterable[str]) -> list[Layer]:
    """Return every layer that the log of one build or of several lists.

    `nodes` are the names of the nodes of the graph, which are looked for in the names of layers.
    """
    # A name as a whole; a fusion of ONNX Runtime's appends to it what it fused.
    pattern = r"(?<![\w./:-]){}(?:/\w*Fusion\w*)?(?![\w./:-])"
    spelled = {node: re.compile(pattern.format(re.escape(node))) for node in nodes if node}
    return [
        Layer(
            line["name"],
            line["kind"],
            tuple(_TYPE.findall(line["inputs"])),
            tuple(node for node, name in spelled.items() if name.search(line["name"])),
        )
        for line in map(_LINE.match, _COLORS.sub("", log).splitlines())
        if line is not None
    ]


def providers_of(spec: EngineSpec, graph: Path, cache: Path) -> tuple[Provider, ...]:
    """Return TensorRT, then CUDA, as a session is asked for them.

    Parameters
    ----------
    spec : the engine.
    graph : the ONNX file that is opened.
    cache : the folder of the provider's engines.

    Raises
    ------
    UsageError, DataError : see `profile_of` and `profile_options`.
    """
    shapes = profile_options(profile_of(spec, read_signature(graph)))
    options = provider_options(spec, cache) | shapes
    return Provider(TENSORRT, options, libraries=operators_of(spec)), Provider(CUDA, CUDA_OPTIONS)


def provider_options(spec: EngineSpec, folder: Path) -> dict[str, str]:
    """Return the options of the provider: every switch that changes results, and its cache of engines in `folder`.

    It keys its engines by names and not by weights (github.com/microsoft/onnxruntime/issues/6455), so each engine of
    ours has a folder of its own.
    """
    parsed, floats = options_of(spec), float_type(spec)
    options = {
        "device_id": "0",
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": str(folder),
        "trt_fp16_enable": "1" if floats == "fp16" else "0",
        "trt_bf16_enable": "1" if floats == "bf16" else "0",
        "trt_int8_enable": "1" if spec.precision == "int8" else "0",
    }
    if parsed.libraries:
        options["trt_extra_plugin_lib_paths"] = ";".join(parsed.libraries)
    if parsed.workspace_mb is not None:
        options["trt_max_workspace_size"] = str(parsed.workspace_mb * 10**6)
    if parsed.optimization_level is not None:
        options["trt_builder_optimization_level"] = str(parsed.optimization_level)
    return options


def profile_options(shapes: Mapping[str, Range]) -> dict[str, str]:
    """Return the provider's options for shapes, ``name:1x3x64x64,other:1x7``; none if no axis is free.

    Raises
    ------
    UsageError : the name of an input has a colon or comma, which part the entries. Without its shapes the provider
        would build at the first run, for that run's shapes alone, and again for others.
    """
    for name in shapes:
        if ":" in name or "," in name:
            what = f"ONNX Runtime's TensorRT provider takes no shapes for input '{name}'"
            fix = "rename the input, or use backend='trt'"
            raise UsageError(what, allowed="names without colon and comma", fix=fix)
    return {
        f"trt_profile_{word}_shapes": ",".join(
            f"{name}:{'x'.join(map(str, shapes[name][place]))}" for name in sorted(shapes)
        )
        for place, word in enumerate(("min", "opt", "max") if shapes else ())
    }


_ANEW = (
    "the provider built its engine anew while it opened, in place of the one that was built and timed: clear the cache "
    "(pytest-quant cache clear --kind engine)"
)


class OrtTrtEngine(OrtGpuEngine):
    """Runs the model in `folder`, which `build` filled. Raises `BuildError`, also if TensorRT took no part of it."""

    def __init__(self, spec: EngineSpec, folder: Path) -> None:
        self._copy = tempfile.TemporaryDirectory(prefix="pytest-quant-")
        cache = Path(self._copy.name)
        for file in (file for pattern in ("*.engine", "*.profile") for file in folder.glob(pattern)):
            shutil.copyfile(file, cache / file.name)
        copied = _state(cache)
        providers = providers_of(spec, folder / GRAPH_FILE, cache)
        super().__init__(spec, folder / GRAPH_FILE, providers, notes=build_notes(folder))
        self._layers = read_layers(folder / LAYERS_FILE)
        self._why_not = "" if self._layers else "the log of the provider's build does not show the precision of layers"
        if _state(cache) != copied:
            self.notes = (*self.notes, _ANEW)
            self._layers = []
            self._why_not = "the engine was built anew while it opened, and nothing shows its layers"

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Count the products that TensorRT runs by the layers of its engines, and those that it left as not its own."""
        left = left_products(self._session.get_provider_graph_assignment_info())
        ops = ops_of(read_nodes(self.path).graph)
        macs = macs_by_node(self.path, feeds)
        return count_products(self._layers, ops, left, self.spec.precision, macs, self._why_not)

    def _close(self) -> None:
        super()._close()
        self._copy.cleanup()


def _state(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of the last change of each engine."""
    return {file.name: (file.stat().st_size, file.stat().st_mtime_ns) for file in folder.glob("*.engine")}


def left_products(parts: Sequence[Any]) -> dict[str, tuple[str, str]]:
    """Return operator and provider of each product that TensorRT left to another, by its name.

    `parts` is what each provider runs, ``get_provider_graph_assignment_info()``.
    """
    return {
        node.name: (node.op_type, part.ep_name)
        for part in parts
        if part.ep_name != TENSORRT
        for node in part.get_nodes()
        if node.op_type in PRODUCT_OPS
    }


def count_products(
    layers: Sequence[Layer],
    ops: Mapping[str, str],
    left: Mapping[str, tuple[str, str]],
    precision: str,
    macs: Mapping[str, int | None],
    why_not: str = "",
) -> Coverage:
    """Return the share of products that TensorRT runs in `precision`; products left to CUDA count in float32 only.

    Parameters
    ----------
    layers : those of TensorRT's engines, as far as they are known.
    ops : op type of each node of the ONNX graph, see `ops_of`.
    left : products that TensorRT left to another provider, see `left_products`.
    precision : the one asked for.
    macs : multiply-accumulates of the products of the graph, see `macs_by_node`.
    why_not : why no layer is known; empty where they are.
    """
    inside = {name: op for name, op in ops.items() if not any(is_of(coverage, name) for coverage in left)}
    outside = []
    for name, (op, _) in left.items():
        kind = Kind.ASKED if precision == "fp32" and op in FLOAT_OPS else Kind.OTHER
        outside.append(Tallied(name, op, kind, next((macs[node] for node in macs if is_of(name, node)), None)))
    where = ", ".join(dict.fromkeys((TENSORRT, *(provider for _, provider in left.values()))))
    coverage = count_layers(layers, inside, precision, where, macs, outside)
    return replace(coverage, notes=(why_not,)) if why_not else coverage


def is_of(optimized: str, node: str) -> bool:
    """Tell whether a node of the optimized graph is `node` of the graph, to whose name a fusion appends."""
    return optimized == node or optimized.startswith(f"{node}/")
