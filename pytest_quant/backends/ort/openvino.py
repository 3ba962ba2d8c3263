"""The backend ``ort-openvino``: the quantized files of ``ort``, run by OpenVINO's plugin for ONNX Runtime.

ONNX Runtime sees one node. Where a session is profiled, the plugin adds one event for each kernel, with the type of the
layer and the implementation, whose last part is the precision: ``brgconv_avx2_f32``, ``jit_gemm_I8``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_quant.backends.base import Engine, Feeds
from pytest_quant.backends.offer import Availability
from pytest_quant.backends.openvino import PLUGIN
from pytest_quant.backends.openvino.coverage import COMPUTE, CONVERSIONS, FUSED, OPERATORS
from pytest_quant.backends.ort import OrtBackend, parse_options
from pytest_quant.backends.readback import FLOATS, Kind, Tallied, precision_of, product_kind, tally
from pytest_quant.backends.saturation import OlderCpu, limited_onednn
from pytest_quant.environment.machine import onednn_tier, version
from pytest_quant.result import Coverage
from pytest_quant.spec import ARRIVING, EngineSpec

if TYPE_CHECKING:
    from pytest_quant.backends.ort.macs import Product, RanNode
    from pytest_quant.backends.ort.session import Provider

OPENVINO = "OpenVINOExecutionProvider"
_DISTRIBUTION = "onnxruntime-ep-openvino"
_PACKAGE = "onnxruntime_ep_openvino"


def cpu_devices() -> list[Any]:
    """Register the plugin if needed, and return the only CPU device with exactly its name.

    The plugin has siblings, ``OpenVINOExecutionProvider.AUTO`` for one, which cannot be mixed with it.
    """
    import onnxruntime

    try:
        onnxruntime.register_execution_provider_library(OPENVINO, import_module(_PACKAGE).get_library_path())
    except Exception as error:
        # ONNX Runtime's own exceptions have no common base, and it has no way to ask what is registered.
        if "already registered" not in str(error):
            raise
    kind = onnxruntime.OrtHardwareDeviceType.CPU
    devices = [device for device in onnxruntime.get_ep_devices() if device.device.type == kind]
    return [device for device in devices if device.ep_name == OPENVINO][:1]


class OrtOpenVinoBackend(OrtBackend):
    """ONNX Runtime with its OpenVINO plugin on the CPU; what is not quantized stays in float32."""

    name = "ort-openvino"
    offer = replace(
        OrtBackend.offer, precisions={"fp32": (None,), "int8": ("static", *ARRIVING)}, extras=("ort-openvino",)
    )

    def availability(self, spec: EngineSpec | None = None) -> Availability:
        """Tell whether onnxruntime and the plugin are installed, load, and offer this CPU."""
        runtime = super().availability(spec)
        if not runtime.available:
            return runtime
        if find_spec(_PACKAGE) is None:
            fix = 'on a CPU made by Intel pip install "pytest-quant[ort-openvino]", on others backend="openvino"'
            return Availability(False, reason=f"{_DISTRIBUTION} not installed", fix=fix)
        try:
            devices = cpu_devices()
        except Exception as error:
            # ONNX Runtime raises the errors of the loader and of the plugin as types of its own.
            reason, fix = f"{type(error).__name__}: {error}", f"pip install --force-reinstall {_DISTRIBUTION}"
            return Availability(False, reason=f"the plugin does not load: {reason}", fix=fix, broken=True)
        number = version(_DISTRIBUTION)
        if not devices:
            reason = f"{_DISTRIBUTION} {number} offers no device on this CPU: it takes those made by Intel only"
            fix = 'pip install "pytest-quant[openvino]", and backend="openvino"'
            return Availability(False, reason=reason, fix=fix)
        return Availability(True, version=f"{number} in onnxruntime {runtime.version}", device="cpu")

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Those of the quantizer, and the provider."""
        ours = {"provider": f"{OPENVINO} {version(_DISTRIBUTION)}", "instruction set": onednn_tier()}
        return {**super().ingredients(spec), **ours}

    def older_cpu(self) -> OlderCpu:
        """The kernels of oneDNN, which a variable limits."""
        return limited_onednn()

    def saturate(self, spec: EngineSpec, folder: Path, work: Path) -> None:
        """None: how its kernels pair products is not known."""

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open a session and prove that its products are on OpenVINO. Raises `BuildError`."""
        from pytest_quant.backends.ort.build import engine_file
        from pytest_quant.backends.ort.engine import OrtEngine
        from pytest_quant.backends.ort.macs import find_products, nodes_in
        from pytest_quant.backends.ort.recipe import notes_of

        options = parse_options(spec.options)
        path, threads = engine_file(spec, folder), options.threads

        def count(profile: Path, feeds: Feeds) -> Coverage:
            """Count kernels, inside OpenVINO too."""
            events = json.loads(profile.read_text(encoding="utf-8"))
            return count_kernels(kernels_in(events), nodes_in(events), find_products(path, feeds), spec.precision)

        providers = make_provider(threads, options.libraries)
        return OrtEngine(spec, path, providers, threads=threads, notes=notes_of(spec), count=count)


def make_provider(threads: int, libraries: tuple[str, ...] = ()) -> tuple[Provider]:
    """Return OpenVINO on this CPU, as a session is asked for it."""
    from pytest_quant.backends.ort.session import Provider

    inside = PLUGIN | {"INFERENCE_NUM_THREADS": str(threads)}
    return (Provider(OPENVINO, {"load_config": json.dumps({"CPU": inside})}, tuple(cpu_devices()), libraries),)


Kernel: TypeAlias = tuple[str, str, str]
"""Name, type of layer and precision, ``f32``, ``i8`` or ``bf16`` for example, of a kernel that ran."""


def kernels_in(events: Iterable[Mapping[str, Any]]) -> list[Kernel]:
    """Return the kernels among the events of a profile, in the order they ran; what OpenVINO optimized away is none."""
    kernels = []
    for event in events:
        facts = event.get("args", {})
        if event.get("cat") == "Kernel" and (facts.get("ep"), facts.get("ov_status")) == (OPENVINO, "EXECUTED"):
            precision = facts["ov_exec_type"].rpartition("_")[2].lower()
            kernels.append((event["name"].removeprefix("OV::"), facts["ov_node_type"], precision))
    return kernels


_PRODUCTS = COMPUTE | OPERATORS | {"BinaryConvolution", "FullyConnectedQuantized", "FullyConnectedQuantizedLegacy"}
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
    kernels : those that ran inside OpenVINO, see `kernels_in`.
    nodes : all nodes that ONNX Runtime ran, see `nodes_in`; those that it gave to OpenVINO are left out here.
    products : those of the model for the shapes of the run, see `find_products`.
    precision : the one asked for, ``fp32`` or ``int8``.
    """
    from pytest_quant.backends.ort.macs import kind_of

    seen = [_tally_kernel(kernel, products, precision) for kernel in kernels]
    seen += [Tallied(node.name, node.op_type, kind_of(node, precision)) for node in nodes if node.provider != OPENVINO]
    missing = len(products) - sum(node.kind in (Kind.ASKED, Kind.OTHER) for node in seen)
    return tally([*seen, *_tally_missing(kernels, products, max(0, missing), precision)], OPENVINO)


def _tally_missing(
    kernels: Sequence[Kernel], products: Sequence[Product], missing: int, precision: str
) -> list[Tallied]:
    """Return the `missing` products, by name if it is clear which they are."""
    fused = {word for _, layer, word in kernels if layer == FUSED}
    unanswered = [product for product in products if not any(product.is_called(name) for name, _, _ in kernels)]
    if len(unanswered) != missing:
        return [Tallied("", FUSED, Kind.OPAQUE)] * missing
    word = fused.pop() if len(fused) == 1 else ""
    kind = product_kind(word, precision) if precision_of(word) in FLOATS else Kind.OPAQUE
    return [
        Tallied(product.name, FUSED, Kind.OPAQUE if product.reads_levels else kind, product.macs)
        for product in unanswered
    ]


def _tally_kernel(kernel: Kernel, products: Sequence[Product], precision: str) -> Tallied:
    name, layer, _ = kernel
    kind = kernel_kind(kernel, precision)
    source = next((product for product in products if product.is_called(name)), None)
    if source is None or kind not in (Kind.ASKED, Kind.OTHER):
        return Tallied(name, layer, kind)
    return Tallied(source.name or name, layer, kind, source.macs)


def kernel_kind(kernel: Kernel, precision: str) -> Kind:
    """Return how a kernel counts in the coverage of an engine of `precision`."""
    _, layer, word = kernel
    if layer in _PRODUCTS:
        return product_kind(word, precision)
    return Kind.CONVERSION if layer in CONVERSIONS else Kind.BESIDE
