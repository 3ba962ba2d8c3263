"""The backend ``ort``: whether it is here, what it offers, its options, and where each step is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_quant.backends.base import Backend, Engine, Feeds
from pytest_quant.backends.offer import Availability, Offer, Remedy, normalize_options
from pytest_quant.backends.runtime import WHEELS, import_runtime
from pytest_quant.backends.saturation import Exposed, OlderCpu, emulated_haswell
from pytest_quant.backends.switchable import SwitchableGraph
from pytest_quant.errors import UsageError, nearest
from pytest_quant.readers import FLAG, choice_of, count, keys_of, make_reader, option
from pytest_quant.spec import ARRIVING, EngineSpec


def runtime_version() -> str:
    """Return the version of the onnxruntime that is imported, whichever wheel brought it."""
    import onnxruntime

    return str(onnxruntime.__version__)


_EXTRA = frozenset({
    "ActivationRestrictedAsymmetric", "ActivationSymmetric", "AddQDQPairToWeight", "BlockSize", "DedicatedQDQPair",
    "DefaultTensorType", "EnableSubgraph", "ForceQuantizeNoInputCheck", "MatMulConstBOnly", "MinimumRealRange",
    "OpTypesToExcludeOutputQuantization", "QDQDisableWeightAdjustForInt32Bias", "QDQKeepRemovableActivations",
    "QDQOpTypePerChannelSupportToAxis", "QuantizeBias", "UseQDQContribOps", "WeightSymmetric",
})  # fmt: skip
"""Keys of ``extra`` that are the quantizer's."""

CPU = "CPUExecutionProvider"
ALL_OPS = "all"


def _op_types(value: object) -> tuple[str, ...] | None:
    if value == ALL_OPS:
        return (ALL_OPS,)
    if isinstance(value, (list, tuple)) and value and all(isinstance(name, str) and name for name in value):
        return tuple(value)
    return None


def _extra(value: object) -> str | None:
    """Return ``extra_options`` as JSON text.

    ONNX Runtime ignores a key that it does not know. ``TensorQuantOverrides``, which it knows, is refused: it gives
    single tensors types and ranges of their own, of which the reach of the scheme knows nothing. Keys of calibrators
    are refused too: the ingredients of ranges do not name them.
    """
    if not isinstance(value, dict):
        return None
    for key in sorted(value.keys() - _EXTRA, key=str):
        message = f"extra option '{key}' is not taken here"
        raise UsageError(message, value=repr(value[key]), allowed=nearest(str(key), _EXTRA))
    try:
        return json.dumps(value, sort_keys=True)
    except TypeError:
        return None


def _files(value: object) -> tuple[str, ...] | None:
    """Return absolute paths, since ONNX Runtime's tools run in other folders; ``None`` if any path is no file."""
    files = tuple(Path(str(file)).absolute() for file in value) if isinstance(value, (list, tuple)) else ()
    return tuple(map(str, files)) if files and all(file.is_file() for file in files) else None


# Libraries with operators of the user's own.
LIBRARIES = make_reader("a list of paths of shared libraries, all of them existing files", _files)


@dataclass(frozen=True, slots=True)
class OrtOptions:
    """Options of a mark; ``None`` leaves the choice to the scheme and the machine, which `recipe_of` resolves.

    After that `op_types` of ``None`` are all that the quantizer knows. `extra` is JSON text.
    """

    threads: int = option(1, count(), "threads of one operator; spinning is always off")
    op_types: tuple[str, ...] | None = option(
        None,
        make_reader('a list of op types such as ["MatMul", "Conv"], or "all"', _op_types),
        "what to quantize; by default static takes operators with weights and those that hand values on, dynamic "
        "matrix products; int4 always takes matrices, and tables too where Gather is named",
    )
    per_channel: bool = option(True, FLAG, "one scale for each output channel of a weight")
    reduce_range: bool | None = option(None, FLAG, "7-bit weights; default True on x86 without VNNI")
    activation_type: str | None = option(None, choice_of("uint8", "int8"), "default uint8 on x86, int8 on ARM")
    weight_type: str = option("int8", choice_of("int8", "uint8"), "what weights are stored in")
    symmetric: bool | None = option(None, FLAG, "zero in the middle; default: activations no, int4 blocks yes")
    block_size: int = option(32, choice_of(16, 32, 64, 128, 256), "int4: weights that share a scale")
    accuracy_level: int = option(0, choice_of(0, 1, 2, 3, 4), "int4: see MatMulNBits, 0 computes in float, 4 in int8")
    extra: str = option(
        "{}",
        make_reader("a dict of ONNX Runtime's extra_options", _extra),
        "`extra_options` of onnxruntime.quantization",
    )
    libraries: tuple[str, ...] = option((), LIBRARIES, "custom operators, loaded wherever the model is built or runs")
    x64quantprecision: bool = option(
        False, FLAG, "on x86 without VNNI int8 weights run as uint8, in kernels that do not saturate"
    )
    tf32: bool = option(False, FLAG, "`ort-cuda`: float32 products may round their inputs to ten bits")

    @property
    def quantizer_extra(self) -> dict[str, object]:
        """Those of `extra`, with ``symmetric`` under the quantizer's own key."""
        extra: dict[str, object] = json.loads(self.extra)
        return {"ActivationSymmetric": True} | extra if self.symmetric else extra


CUDA_KEYS = keys_of(OrtOptions)


def parse_options(options: Iterable[tuple[str, object]]) -> OrtOptions:
    """Turn the options of a mark into `OrtOptions`.

    Raises
    ------
    UsageError : an option is unknown, of another type or out of range; or ONNX Runtime has no kernels for the types.
    """
    parsed = OrtOptions(**normalize_options("ort", options, CUDA_KEYS))
    if (parsed.activation_type, parsed.weight_type) == ("int8", "uint8"):
        raise UsageError(
            "ONNX Runtime has no kernels for int8 activations with uint8 weights",
            allowed="uint8 with int8 (x86), int8 with int8 (ARM), uint8 with uint8",
            fix="drop weight_type, or write activation_type='uint8'",
        )
    return parsed


_REPAIR = "pip install --force-reinstall onnxruntime onnx"


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
        {name: key for name, key in CUDA_KEYS.items() if name != "tf32"},
        ("minmax", "entropy", "percentile"),
        extras=("ort",),
    )

    def availability(self, spec: EngineSpec | None = None) -> Availability:  # noqa: ARG002
        """Tell whether onnxruntime and onnx are installed, new enough, load, and hold what they should."""
        runtime = import_runtime(
            "onnxruntime", "onnx", install='pip install "pytest-quant[ort]"', repair=_REPAIR, wheels=WHEELS
        )
        if isinstance(runtime, Availability):
            return runtime
        if not hasattr(runtime, "InferenceSession"):
            reason = "onnxruntime is an empty folder without InferenceSession, as left by uninstalling onnxruntime-gpu"
            return Availability(False, reason=reason, fix=_REPAIR, broken=True)
        return Availability(True, version=str(runtime.__version__), device="cpu")

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
        """Write the quantized model; a float model and a model that arrives quantized stay where they are."""
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

    def exposed_sums(self, spec: EngineSpec, folder: Path) -> tuple[Exposed, ...]:
        """The products of u8 and s8 by the weights in the file."""
        from pytest_quant.backends.ort.integer_products import find_exposed

        return find_exposed(spec, folder)

    def older_cpu(self) -> OlderCpu:
        """An emulated one: MLAS asks the processor, and no setting changes its choice."""
        return emulated_haswell()

    def saturate(self, spec: EngineSpec, folder: Path, work: Path) -> Engine | None:
        """The same graph with matrices whose sums are cut to 16 bits."""
        from pytest_quant.backends.ort.saturating_graph import saturate

        return saturate(spec, folder, work)

    def switches(self, spec: EngineSpec, folder: Path, work: Path) -> SwitchableGraph | None:
        """The Q/DQ graph of the file with the float weights of the model that it was made from."""
        from pytest_quant.backends.ort.switchable_graph import open_switchable

        return open_switchable(spec, folder, work)

    def keep_part(self, spec: EngineSpec, engine: Path, feeds: Feeds, folder: Path) -> str:
        """Of kernels for the CPU, which other backends of ONNX Runtime do not run."""
        from pytest_quant.backends.ort.kernel_part import keep_part

        return keep_part(spec, engine, feeds, folder) if self.name == OrtBackend.name else ""

    def quantized_nodes(self, spec: EngineSpec) -> tuple[str, ...]:
        """The named nodes that the scheme takes."""
        from pytest_quant.backends.ort.recipe import quantized_nodes

        return quantized_nodes(spec)
