"""One open session on OpenVINO, and the precision of its products, counted from the kernels that really ran.

ONNX Runtime sees one node. Where a session is profiled, the plugin adds one event for each kernel, with the type of the
layer and the implementation, whose last part is the precision: ``brgconv_avx2_f32``, ``jit_gemm_I8``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.openvino.coverage import COMPUTE, CONVERSIONS, FUSED
from pytest_quant.backends.ort.build import engine_file
from pytest_quant.backends.ort.engine import OrtEngine
from pytest_quant.backends.ort.libraries import OPENVINO, cpu_devices
from pytest_quant.backends.ort.macs import RanNode, kind_of, read_profile
from pytest_quant.backends.ort.options import parse_options
from pytest_quant.backends.ort.products import Product, find_products
from pytest_quant.backends.ort.recipe import recipe_of
from pytest_quant.backends.ort.session import Provider
from pytest_quant.backends.readback import FLOATS, Kind, Tallied, precision_of, product_kind, tally
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec

_PREFIX = "OV::"
_RAN = "EXECUTED"


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel that ran; `precision` in small letters, ``f32``, ``i8`` or ``bf16`` for example."""

    name: str
    layer: str
    precision: str


def read_kernels(file: Path) -> list[Kernel]:
    """Return the kernels in the order they ran; those that OpenVINO optimized away are not among them."""
    events = json.loads(file.read_text(encoding="utf-8"))
    return [
        Kernel(
            name=event["name"].removeprefix(_PREFIX),
            layer=event["args"]["ov_node_type"],
            precision=event["args"]["ov_exec_type"].rpartition("_")[2].lower(),
        )
        for event in events
        if event.get("cat") == "Kernel"
        and event["args"].get("ep") == OPENVINO
        and event["args"].get("ov_status") == _RAN
    ]


_PRODUCTS = COMPUTE | {
    "BinaryConvolution",
    "ConvolutionBackpropData",
    "DeformableConvolution",
    "FullyConnectedQuantized",
    "FullyConnectedQuantizedLegacy",
    "GroupConvolution",
    "GroupConvolutionBackpropData",
    "GRUCell",
    "GRUSequence",
    "LSTMCell",
    "LSTMSequence",
    "RNNSequence",
}
"""Counters carry OpenVINO's names of operators, where its runtime model carries those of layers."""


def count_kernels(
    kernels: Sequence[Kernel], nodes: Sequence[RanNode], products: Sequence[Product], precision: str
) -> Coverage:
    """Return the coverage of `kernels` inside OpenVINO and of `nodes` outside.

    A product of the model that has no kernel of its name became part of a fused kernel. Where all fused kernels run in
    one float type, the product runs in it too, unless one of its operands was dequantized: a kernel's type is that of
    its inputs and outputs only. In every other case it is opaque, as all products are when no kernel was reported.

    Parameters
    ----------
    kernels : those that ran inside OpenVINO, see `read_kernels`.
    nodes : all nodes that ONNX Runtime ran, see `read_profile`; those that it gave to OpenVINO are left out here.
    products : those of the model for the shapes of the run, see `find_products`.
    precision : the one asked for, ``fp32`` or ``int8``.
    """
    inside = [_tallied(kernel, products, precision) for kernel in kernels]
    outside = [
        Tallied(node.name, node.op_type, kind_of(node, precision)) for node in nodes if node.provider != OPENVINO
    ]
    seen = sum(one.kind in (Kind.ASKED, Kind.OTHER) for one in (*inside, *outside))
    missing = max(0, len(products) - seen)
    return tally([*inside, *outside, *_swallowed(kernels, products, missing, precision)], OPENVINO)


def _swallowed(kernels: Sequence[Kernel], products: Sequence[Product], missing: int, precision: str) -> list[Tallied]:
    """Return the `missing` products, by name where it is clear which they are."""
    fused = {kernel.precision for kernel in kernels if kernel.layer == FUSED}
    unanswered = [product for product in products if not any(product.is_called(kernel.name) for kernel in kernels)]
    if len(unanswered) != missing:
        return [Tallied("", FUSED, Kind.OPAQUE)] * missing
    word = fused.pop() if len(fused) == 1 else ""
    kind = product_kind(word, precision) if precision_of(word) in FLOATS else Kind.OPAQUE
    return [
        Tallied(product.name, FUSED, Kind.OPAQUE if product.reads_levels else kind, product.macs)
        for product in unanswered
    ]


def _tallied(kernel: Kernel, products: Sequence[Product], precision: str) -> Tallied:
    kind = kernel_kind(kernel, precision)
    if kind not in (Kind.ASKED, Kind.OTHER):
        return Tallied(kernel.name, kernel.layer, kind)
    source = next((product for product in products if product.is_called(kernel.name)), None)
    name = kernel.name if source is None else source.name or kernel.name
    return Tallied(name, kernel.layer, kind, None if source is None else source.macs)


def kernel_kind(kernel: Kernel, precision: str) -> Kind:
    """Return how a kernel counts in the coverage of an engine of `precision`."""
    if kernel.layer in _PRODUCTS:
        return product_kind(kernel.precision, precision)
    return Kind.CONVERSION if kernel.layer in CONVERSIONS else Kind.BESIDE


_SETTINGS = {
    "PERFORMANCE_HINT": "LATENCY",
    "INFERENCE_PRECISION_HINT": "f32",
    "NUM_STREAMS": "1",
    "ENABLE_CPU_PINNING": "NO",
}
"""In words of OpenVINO: without the hint a CPU with bfloat16 may run the float reference in it."""


def on_openvino(threads: int) -> tuple[Provider]:
    """Return OpenVINO on this CPU, as a session is asked for it."""
    inside = _SETTINGS | {"INFERENCE_NUM_THREADS": str(threads)}
    return (Provider(OPENVINO, {"load_config": json.dumps({"CPU": inside})}, tuple(cpu_devices())),)


def open_engine(spec: EngineSpec, folder: Path) -> OrtOpenVinoEngine:
    """Open the engine that `build` wrote. Raises `BuildError` or `ModelError`."""
    return OrtOpenVinoEngine(spec, engine_file(spec, folder))


class OrtOpenVinoEngine(OrtEngine):
    """A session whose products are all on OpenVINO. Raises `BuildError` for a model of which nothing is."""

    def __init__(self, spec: EngineSpec, path: Path) -> None:
        threads = parse_options(spec.options).threads
        super().__init__(spec, path, on_openvino(threads), threads=threads, notes=recipe_of(spec).notes)

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Run once in a session of its own that counts kernels, inside OpenVINO too."""
        with self._profiled(feeds) as file:
            kernels, nodes = read_kernels(file), read_profile(file)
        return count_kernels(kernels, nodes, find_products(self.path, feeds), self.spec.precision)
