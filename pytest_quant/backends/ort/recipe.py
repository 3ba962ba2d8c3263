"""How a model is quantized: every choice made, by the scheme, the options and this machine's instruction set.

Static quantization takes the operators with weights (`WEIGHTED`) and those that hand 8-bit values on
(`PASSING`), so that a chain such as Conv, Relu, MaxPool, Conv stays in int8 and the CPU kernels fuse. It leaves
arithmetic between activations (Add, Mul, Softmax, normalization, Concat) in float: their int8 forms save little time
and cost accuracy (a file-type classifier falls from 0.88 to 0.08 with all operators, 0.88 with these). Dynamic
quantization takes matrix products with constant weights; ConvInteger is slower than a float Conv, so convolutions are
taken only in a model that has nothing else. ``op_types`` overrides both.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pytest_quant.backends.offer import seven_bits_note
from pytest_quant.backends.onnx_files import model_file, read_graph
from pytest_quant.backends.onnx_files.graphs import all_nodes
from pytest_quant.backends.onnx_files.normalize import check_excluded, names_made_of
from pytest_quant.backends.ort.options import ALL_OPS, CALIBRATOR_KEYS, OrtOptions, parse_options
from pytest_quant.environment import has_vnni, isa_tier, onednn_tier
from pytest_quant.spec import EngineSpec


def excluded_nodes(spec: EngineSpec, prepared: Path) -> list[str]:
    """Return the names by which the quantizer knows the nodes that `spec` excludes.

    A name may stand in the body of an If, Loop or Scan or in a function of the file; all nodes of that name are meant.
    A Gemm may be split again into ``name_MatMul``.

    Raises
    ------
    UsageError : the model has no node of that name, so that nothing would be left in float.
    """
    if not spec.exclude:
        return []
    model = read_graph(model_file(spec.model))
    theirs = {node.name for node in all_nodes(model) if node.name}
    check_excluded(spec, theirs)
    added = {node.name for node in all_nodes(read_graph(prepared))} - theirs
    names = {one for name in spec.exclude for one in (name, *names_made_of(name, model, added))}
    return sorted(names | {f"{one}_MatMul" for one in names})


RECIPE_VERSION = "4"
"""Raised when the same ingredients would be built into something else."""

WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
PASSING = ("Clip", "Flatten", "MaxPool", "Relu", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
DYNAMIC = ("Attention", "LSTM", "MatMul")
"""Operators that a scheme takes unless ``op_types`` says otherwise; dynamic turns Gemm into MatMul first."""

_ARM_TIERS = ("i8mm", "dotprod", "sve", "neon")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides how `EngineSpec` is quantized; no field is left to a default.

    Attributes
    ----------
    op_types : ``None`` means all that the quantizer knows.
    extra : JSON text of ONNX Runtime's ``extra_options``.
    notes : choices the user did not make and should know of.
    """

    op_types: tuple[str, ...] | None
    per_channel: bool
    reduce_range: bool
    activation_type: str
    weight_type: str
    symmetric: bool
    block_size: int
    accuracy_level: int
    extra: str
    notes: tuple[str, ...] = ()

    @property
    def quantizer_extra(self) -> dict[str, object]:
        """The part of `extra` that the quantizer reads, with ``symmetric`` under the quantizer's own key."""
        extra = {"ActivationSymmetric": True} if self.symmetric else {}
        return extra | {key: value for key, value in json.loads(self.extra).items() if key not in CALIBRATOR_KEYS}

    @property
    def calibrator_extra(self) -> dict[str, object]:
        """The part of `extra` that the calibrator reads, under the calibrator's own keys."""
        return {CALIBRATOR_KEYS[key]: value for key, value in json.loads(self.extra).items() if key in CALIBRATOR_KEYS}


def recipe_of(spec: EngineSpec) -> Recipe:
    """Resolve the options of `spec` on this machine."""
    options = parse_options(spec.options)
    arm = _tier(spec) in _ARM_TIERS
    activation_type = options.activation_type or ("int8" if arm else "uint8")
    reduce_range, notes = _reduce_range(spec, options)
    return Recipe(
        op_types=_op_types(spec, options),
        per_channel=options.per_channel,
        reduce_range=reduce_range,
        activation_type=activation_type,
        weight_type=options.weight_type,
        symmetric=options.symmetric if options.symmetric is not None else spec.precision == "int4",
        block_size=options.block_size,
        accuracy_level=options.accuracy_level,
        extra=options.extra,
        notes=notes,
    )


def _op_types(spec: EngineSpec, options: OrtOptions) -> tuple[str, ...] | None:
    if options.op_types is not None:
        return None if options.op_types == (ALL_OPS,) else tuple(sorted(options.op_types))
    return {"static": WEIGHTED + PASSING, "dynamic": DYNAMIC}.get(spec.scheme or "", ("MatMul",))


def _tier(spec: EngineSpec) -> str:
    """Return the instruction set of the kernels: OpenVINO as a provider multiplies by oneDNN, which can be lowered."""
    return onednn_tier() if spec.backend == "ort-openvino" else isa_tier()


def _reduce_range(spec: EngineSpec, options: OrtOptions) -> tuple[bool, tuple[str, ...]]:
    """Seven bits where u8 x s8 kernels add in 16 bits and saturate; u8 weights run in kernels that widen."""
    if options.reduce_range is not None:
        return options.reduce_range, ()
    tier = _tier(spec)
    if spec.scheme not in ("static", "dynamic") or options.weight_type == "uint8" or has_vnni(tier):
        return False, ()
    return True, (seven_bits_note("weights", tier, "'reduce_range': False"),)
