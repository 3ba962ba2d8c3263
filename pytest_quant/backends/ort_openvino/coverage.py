"""What really ran, in which precision: counted from the kernels that OpenVINO ran."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.openvino.coverage import COMPUTE
from pytest_quant.backends.ort.op_table import kind_of
from pytest_quant.backends.ort.profile import RanNode, read_profile
from pytest_quant.backends.ort.refusal import run_refused
from pytest_quant.backends.ort_openvino.kernels import Kernel, read_kernels
from pytest_quant.backends.ort_openvino.plugin import PROVIDER
from pytest_quant.backends.ort_openvino.products import Product, find_products
from pytest_quant.backends.ort_openvino.session import open_session
from pytest_quant.backends.tally import Kind, Tallied, tally
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec, Signature

_PRODUCTS = COMPUTE | {"FullyConnectedQuantized", "FullyConnectedQuantizedLegacy"}
_CONVERSIONS = frozenset({"FakeQuantize", "Reorder"})
_ASKED = {"fp32": frozenset({"f32"}), "int8": frozenset({"i8", "u8"})}
_COMPUTES_IN = frozenset({"bf16", "f16", "f32", "f64", "i8", "u8"})
"""A product of other integers, token numbers for example, is no compute of the network."""


def measure_coverage(path: Path, spec: EngineSpec, threads: int, feeds: Feeds, signature: Signature) -> Coverage:
    """Run the model in `path` once over `feeds` and return the share of eligible compute in `spec`'s precision.

    Raises
    ------
    DataError : `feeds` do not fit the model.
    """
    with tempfile.TemporaryDirectory(prefix="pytest-quant-") as folder:
        session, _ = open_session(path, threads, profile=Path(folder))
        try:
            session.run(None, feeds)
        except Exception as error:
            raise run_refused(error, feeds, signature, f"a profiled run of {spec.id}") from error
        file = Path(session.end_profiling())
        kernels, nodes = read_kernels(file), read_profile(file)
    return count_coverage(kernels, nodes, find_products(path, feeds), spec.precision)


def count_coverage(
    kernels: Sequence[Kernel], nodes: Sequence[RanNode], products: Sequence[Product], precision: str
) -> Coverage:
    """Return the coverage of `kernels` inside OpenVINO and of `nodes` outside.

    A product of the model that no kernel answers for is inside a fused kernel, or no counters came: it is opaque.
    """
    inside = [_tallied(kernel, products, precision) for kernel in kernels]
    outside = [
        Tallied(node.name, node.op_type, kind_of(node, precision)) for node in nodes if node.provider != PROVIDER
    ]
    seen = sum(one.kind in (Kind.ASKED, Kind.OTHER) for one in (*inside, *outside))
    hidden = [Tallied("", "fused", Kind.OPAQUE)] * max(0, len(products) - seen)
    return tally([*inside, *outside, *hidden], PROVIDER)


def _tallied(kernel: Kernel, products: Sequence[Product], precision: str) -> Tallied:
    kind = kernel_kind(kernel, precision)
    if kind not in (Kind.ASKED, Kind.OTHER):
        return Tallied(kernel.name, kernel.layer, kind)
    source = next((product for product in products if product.is_called(kernel.name)), None)
    name = kernel.name if source is None else source.name or kernel.name
    return Tallied(name, kernel.layer, kind, None if source is None else source.macs)


def kernel_kind(kernel: Kernel, precision: str) -> Kind:
    """Tell what a kernel means for an engine of `precision`."""
    if kernel.layer in _PRODUCTS and kernel.precision in _COMPUTES_IN:
        return Kind.ASKED if kernel.precision in _ASKED[precision] else Kind.OTHER
    return Kind.CONVERSION if kernel.layer in _CONVERSIONS else Kind.BESIDE
