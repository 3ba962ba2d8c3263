"""The backend ``ort``: whether it is here, what it offers, where each step is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pytest_quant.backends.base import Backend, Engine, Feeds
from pytest_quant.backends.offer import Availability, Offer, Remedy
from pytest_quant.backends.ort.options import CPU_KEYS, METHODS, parse_options
from pytest_quant.backends.runtime import WHEELS, import_runtime
from pytest_quant.spec import ARRIVING, EngineSpec

_INSTALL = 'pip install "pytest-quant[ort]"'
_REPAIR = "pip install --force-reinstall onnxruntime onnx"


def find_runtime() -> Availability:
    """Tell whether onnxruntime and onnx are installed, new enough, load, and hold what they should."""
    runtime = import_runtime(
        "onnxruntime", "onnx", ask=lambda onnxruntime: onnxruntime, install=_INSTALL, repair=_REPAIR, wheels=WHEELS
    )
    if isinstance(runtime, Availability):
        return runtime
    if not hasattr(runtime, "InferenceSession"):
        reason = "onnxruntime is an empty folder without InferenceSession, as left by uninstalling onnxruntime-gpu"
        return Availability(False, reason=reason, fix=_REPAIR, broken=True)
    return Availability(True, version=str(runtime.__version__), device="cpu")


class OrtBackend(Backend):
    """ONNX Runtime with ``CPUExecutionProvider`` and nothing else."""

    name = "ort"
    offer = Offer(
        {
            "fp32": (None,),
            "fp16": ARRIVING,
            "int8": ("static", "dynamic", *ARRIVING),
            "int4": ("weight-only", *ARRIVING),
        },
        CPU_KEYS,
        METHODS,
        extras=("ort",),
    )

    def availability(self, spec: EngineSpec | None = None) -> Availability:  # noqa: ARG002
        """Tell whether onnxruntime and onnx are installed and load."""
        return find_runtime()

    def check(self, spec: EngineSpec) -> None:
        """Raise `UsageError` for what is not offered, and for types of activations and weights without kernels."""
        super().check(spec)
        parse_options(spec.options)

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Model bytes, every option as resolved here, library versions, instruction set, recipe."""
        from pytest_quant.backends.ort.build import engine_ingredients

        return engine_ingredients(spec)

    def calibration_ingredients(self, spec: EngineSpec) -> dict[str, str] | None:
        """The part of the ingredients that decides the ranges of activations; ``None`` unless static."""
        from pytest_quant.backends.ort.build import range_ingredients

        return range_ingredients(spec) if spec.scheme == "static" else None

    def calibrate(self, spec: EngineSpec, batches: Callable[[], Iterator[Feeds]], folder: Path) -> None:
        """Write the ranges of activations. Raises `DataError` for no batches or batches that do not fit."""
        from pytest_quant.backends.ort.build import write_ranges

        write_ranges(spec, batches, folder)

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Write the quantized model; a float model and one that arrives quantized stay where they are."""
        from pytest_quant.backends.ort.build import write_engine

        write_engine(spec, calibration, folder)

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open a session and prove that its nodes are on the CPU. Raises `BuildError` when it is refused."""
        from pytest_quant.backends.ort.engine import open_engine

        return open_engine(spec, folder)

    def remedies(self, spec: EngineSpec) -> Sequence[Remedy]:
        """Other calibrations, schemes and options of the quantizers."""
        from pytest_quant.backends.ort.recipe import remedies

        return tuple(remedies(spec, self.offer.precisions.get(spec.precision, ())))

    def quantized_nodes(self, spec: EngineSpec) -> tuple[str, ...]:
        """The named nodes that the scheme takes."""
        from pytest_quant.backends.ort.recipe import quantized_nodes

        return quantized_nodes(spec)
