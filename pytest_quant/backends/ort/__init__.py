"""The backend ``ort``: whether it is here, what it offers, where each step is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pytest_quant.backends.base import Availability, Engine, Feeds, Reads
from pytest_quant.backends.ort.options import check_spec
from pytest_quant.backends.remedy import Remedy
from pytest_quant.backends.runtime import WHEELS, import_runtime
from pytest_quant.errors import UsageError
from pytest_quant.spec import EngineSpec, Model, Signature

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


class OrtBackend:
    """ONNX Runtime with ``CPUExecutionProvider`` and nothing else."""

    name = "ort"
    device = "cpu"
    extras: tuple[str, ...] = ("ort",)
    reads: Reads = "onnx"
    schemes: Mapping[str, tuple[str | None, ...]] = {
        "fp32": (None,),
        "int8": ("static", "dynamic", "qat"),
        "int4": ("weight-only",),
    }

    def availability(self, spec: EngineSpec | None = None) -> Availability:  # noqa: ARG002
        """Tell whether onnxruntime and onnx are installed and load."""
        return find_runtime()

    def check(self, spec: EngineSpec) -> None:
        """Raise `UsageError` for a precision, scheme, option or calibration that this backend does not know."""
        check_spec(spec, self.schemes)

    def refuses_speed(self, spec: EngineSpec) -> UsageError | None:  # noqa: ARG002
        """Return ``None``: what is slow here may be measured."""
        return None

    def signature(self, model: Model) -> Signature:
        """Read the model's inputs and outputs without its weights. Raises `ModelError`."""
        from pytest_quant.backends.onnx_files import model_file, read_signature

        return read_signature(model_file(model))

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
        from pytest_quant.backends.ort.calibrate import write_ranges

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
        from pytest_quant.backends.ort.advice import remedies

        return tuple(remedies(spec, self.schemes.get(spec.precision, ())))

    def quantized_nodes(self, spec: EngineSpec) -> tuple[str, ...]:
        """The named nodes that the scheme takes."""
        from pytest_quant.backends.ort.advice import quantized_nodes

        return quantized_nodes(spec)
