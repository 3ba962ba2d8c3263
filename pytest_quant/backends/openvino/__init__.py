"""The backend ``openvino``: whether it is here, what it offers, its options, and where each step is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_quant.backends.base import Backend, Engine, Feeds
from pytest_quant.backends.offer import Availability, Offer, Remedy, normalize_options
from pytest_quant.backends.runtime import import_runtime
from pytest_quant.backends.saturation import Exposed, OlderCpu, limited_onednn
from pytest_quant.backends.switchable import SwitchableGraph
from pytest_quant.environment.machine import adds_in_16_bits, onednn_tier, version
from pytest_quant.readers import FLAG, choice_of, count, keys_of, option
from pytest_quant.spec import ARRIVING, EngineSpec, Model, Signature

_REPAIR = "pip install --force-reinstall openvino nncf"


@dataclass(frozen=True, slots=True)
class OpenVinoOptions:
    """Options as asked; ``None`` leaves the choice to the machine or to NNCF."""

    threads: int = option(1, count(), "threads of the one stream")
    preset: str = option("performance", choice_of("performance", "mixed"), "mixed: activations need not be symmetric")
    overflow_fix: str | None = option(
        None,
        choice_of("enable", "first_layer", "disable"),
        "7-bit weights against saturation; default enable without VNNI, else disable",
    )
    model_type: str | None = option(None, choice_of("transformer"), "NNCF's rules for attention")
    fast_bias_correction: bool = option(True, FLAG, "False is slower and may be more accurate")
    dynamic_quantization: int | None = option(
        None, count(0), "group of inputs that share a scale in layers of int8 weights alone; default OpenVINO's, 0 none"
    )

    def seven_bits(self, cpus: str) -> str:
        """Return NNCF's name of the weights that get seven bits: all if kernels add in 16 bits, or as the user says.

        `cpus` is that of `EngineSpec`.
        """
        return self.overflow_fix or ("enable" if adds_in_16_bits(onednn_tier(), cpus) else "disable")


PLUGIN = {
    "PERFORMANCE_HINT": "LATENCY",
    "INFERENCE_PRECISION_HINT": "f32",
    "NUM_STREAMS": "1",
    "ENABLE_CPU_PINNING": "NO",
}
"""Settings of the CPU plugin: without the hint a CPU with bfloat16 may run the float reference in it."""


def parse_options(options: Iterable[tuple[str, object]]) -> OpenVinoOptions:
    """Turn the options of a mark into `OpenVinoOptions`. Raises `UsageError`."""
    return OpenVinoOptions(**normalize_options("openvino", options, OpenVinoBackend.offer.options))


class OpenVinoBackend(Backend):
    """OpenVINO's CPU plugin, one stream; what is not quantized stays in float32.

    NNCF finds ranges and quantizes in one pass over the samples, so the step of calibration writes the quantized
    model, and building takes it over.
    """

    name = "openvino"
    offer = Offer(
        {"fp32": (None,), "int8": ("static", *ARRIVING), "int4": ARRIVING},
        keys_of(OpenVinoOptions),
        ("minmax", "percentile"),
        extras=("openvino",),
    )

    def availability(self, spec: EngineSpec | None = None) -> Availability:  # noqa: ARG002
        """Tell whether openvino, nncf and onnx are installed, and openvino loads.

        NNCF takes seconds to import, so it is only looked for.
        """
        runtime = import_runtime(
            "openvino", install='pip install "pytest-quant[openvino]"', repair=_REPAIR, needs=("nncf", "onnx")
        )
        if isinstance(runtime, Availability):
            return runtime
        return Availability(True, version=version("openvino"), device="cpu")

    def signature(self, model: Model) -> Signature:
        """Read the model's inputs and outputs without its weights. Raises `ModelError`."""
        from pytest_quant.backends.openvino.files import signature_of

        return signature_of(model)

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Model bytes, every option as resolved here, library versions, instruction set, recipe."""
        from pytest_quant.backends.openvino.files import engine_ingredients

        return engine_ingredients(spec)

    def calibration_ingredients(self, spec: EngineSpec) -> dict[str, str] | None:
        """The same ingredients and those of the calibration; ``None`` unless static."""
        from pytest_quant.backends.openvino.files import quantizing_ingredients

        return quantizing_ingredients(spec) if spec.scheme == "static" else None

    def calibrate(self, spec: EngineSpec, batches: Callable[[], Iterator[Feeds]], folder: Path) -> None:
        """Write the quantized model. Raises `DataError` for no batches or batches that do not fit."""
        from pytest_quant.backends.openvino.quantize import write_quantized

        write_quantized(spec, batches, folder)

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Write the model as OpenVINO's own files, weights uncompressed."""
        from pytest_quant.backends.openvino.files import write_engine

        write_engine(spec, calibration, folder)

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Compile the model for the CPU. Raises `BuildError` when it is refused or not pinned to float32."""
        from pytest_quant.backends.openvino.engine import OpenVinoEngine

        return OpenVinoEngine(spec, folder)

    def remedies(self, spec: EngineSpec) -> Sequence[Remedy]:
        """NNCF's other presets, model types and ranges."""
        from pytest_quant.backends.openvino.quantize import remedies

        return tuple(remedies(spec))

    def exposed_sums(self, spec: EngineSpec, folder: Path) -> tuple[Exposed, ...]:  # noqa: ARG002
        """The products whose weights are integers in the file."""
        from pytest_quant.backends.openvino.integer_sums import find_exposed

        return find_exposed(folder)

    def older_cpu(self) -> OlderCpu:
        """The kernels of oneDNN, which a variable limits."""
        return limited_onednn()

    def switches(self, spec: EngineSpec, folder: Path, work: Path) -> SwitchableGraph | None:
        """The engine's own model with a switch at each FakeQuantize and each weight that was rounded."""
        from pytest_quant.backends.openvino.switchable_graph import open_switchable

        return open_switchable(spec, folder, work)

    def quantized_nodes(self, spec: EngineSpec) -> tuple[str, ...]:
        """The nodes that compute, by the names of the user's model."""
        from pytest_quant.backends.openvino.quantize import quantized_nodes

        return quantized_nodes(spec)
