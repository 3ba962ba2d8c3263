"""What a backend says of itself as data: whether it can run here, what it offers, and other ways to quantize.

No runtime is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from textwrap import shorten
from typing import Any, Literal, TypeAlias

from pytest_quant.errors import UsageError, nearest
from pytest_quant.readers import Key
from pytest_quant.spec import ARRIVING, Calibration, EngineSpec

Precisions: TypeAlias = Mapping[str, tuple[str | None, ...]]
"""Precisions, each with its schemes; ``(None,)`` for a float precision."""

Reads: TypeAlias = Literal["onnx", "module", "callable"]
"""What a backend takes: ONNX files, to which a torch module is exported first, torch modules as they are, or functions
of the user's."""

TARGET = "compute_capability"
"""The option that names a GPU to build for, ``SM89`` for one, where there is none."""


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a backend can run here, and if not why and what to do about it.

    `version` and `device` are known only when it can. `fix` is a command line where there is one.
    `broken` : the runtime is installed and does not load, which is an error and never a skip.
    """

    available: bool
    version: str = ""
    device: str = ""
    reason: str = ""
    fix: str = ""
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """What a backend offers.

    Attributes
    ----------
    precisions : precisions and their schemes.
    options : what ``options={...}`` of a mark may have, by name. One called ``tf32`` means that FP32 can be had with
        TF32 and without, one called ``compute_capability`` that a GPU which is not here can be simulated.
    calibrations : methods that find the ranges of activations, for scheme ``static``.
    reads : ONNX files, torch modules, or functions.
    extras : of this package, those that bring the runtime: ``pip install "pytest-quant[ort]"``.
    fixed_shapes : an engine runs only shapes that it was built for; `EngineSpec.shapes` has those of the data.
    """

    precisions: Precisions
    options: Mapping[str, Key] = field(default_factory=dict)
    calibrations: tuple[str, ...] = ()
    reads: Reads = "onnx"
    extras: tuple[str, ...] = ()
    fixed_shapes: bool = False

    @property
    def is_opaque(self) -> bool:
        """Whether nothing is built, and what an engine runs, takes and needs cannot be read back."""
        return self.reads == "callable"


def check_offer(spec: EngineSpec, offer: Offer) -> None:
    """Raise `UsageError` when `offer` has not what `spec` asks for, or a model that arrives quantized is not named."""
    if spec.precision not in offer.precisions:
        message = f"backend '{spec.backend}' has no precision '{spec.precision}'"
        raise UsageError(message, allowed=", ".join(offer.precisions))
    schemes = offer.precisions[spec.precision]
    if spec.scheme is None and set(schemes) <= set(ARRIVING):
        message = f"backend '{spec.backend}' does not make {spec.precision} of a float model"
        raise UsageError(message, allowed="a file that has it", fix=f"write quantized='{spec.precision}.onnx'")
    if spec.scheme not in schemes:
        names = ", ".join(str(name) for name in schemes if name) or "no scheme"
        message = f"backend '{spec.backend}' has no scheme '{spec.scheme}' for {spec.precision}"
        having = [name for name, its in offer.precisions.items() if spec.scheme and spec.scheme in its]
        raise UsageError(message, allowed=names, fix=f"write precision='{having[0]}', which has it" if having else None)
    if spec.scheme in ARRIVING and spec.quantized is None:
        raise UsageError(
            f"scheme '{spec.scheme}' is for a model that arrives quantized, and none is named",
            fix="write quantized='model_int8.onnx' in the mark",
        )
    normalize_options(spec.backend, spec.options, offer.options)
    method = spec.calibration.method
    if spec.scheme == "static" and method not in offer.calibrations:
        message = f"backend '{spec.backend}' has no calibration '{method}'"
        raise UsageError(message, allowed=nearest(method, offer.calibrations))


_LONGEST = 400
"""Letters of a message that lists nodes: a large model has thousands of them."""


def check_excluded(spec: EngineSpec, names: Collection[str], kind: str = "node") -> None:
    """Raise `UsageError` when `spec` excludes what is not among `names`, so that nothing would be left in float.

    `kind` is what they name.
    """
    for name in spec.exclude:
        if name not in names:
            near = nearest(name, names) if names else f"none: its {kind}s have no names; give them some before export"
            message = f"exclude names a {kind} that {spec.model.name} does not have"
            raise UsageError(message, value=repr(name), allowed=shorten(near, _LONGEST, placeholder=" ..."))


def calibration_ingredients(spec: EngineSpec) -> dict[str, str]:
    """Return what decides the ranges of a calibration beside the model, the data and the library that finds them."""
    calibration = spec.calibration
    return {
        "method": calibration.method,
        "percentile": str(calibration.percentile) if calibration.method == "percentile" else "not used",
        "samples": str(calibration.samples),
        "batch_size": str(calibration.batch_size),
    }


def seven_bits_note(spec: EngineSpec, what: str, tier: str, keeps_8: str) -> str:
    """Return the note that `what` got seven bits, because kernels that `spec` is for add products in 16 bits.

    Parameters
    ----------
    what : weights or activations.
    tier : the instruction set of the kernels of this CPU.
    keeps_8 : the option that keeps eight bits, as a mark has it.
    """
    whose = f"cpus='{spec.cpus}' names CPUs without VNNI, whose" if spec.cpus else f"this CPU ({tier}) has no VNNI, its"
    cause = f"{whose} int8 kernels saturate with 8"
    return f"{what} have 7 bits: {cause}; options={{{keeps_8}}} keeps 8"


def normalize_options(backend: str, options: Iterable[tuple[str, object]], keys: Mapping[str, Key]) -> dict[str, Any]:
    """Return `options` by name, each value in its normal form.

    Parameters
    ----------
    backend : name of the backend, for errors.
    options : name and value of each option as the user wrote it.
    keys : the options that the backend takes, by name.

    Raises
    ------
    UsageError : an option is unknown, of another type or out of range.
    """
    values = {}
    for name, value in options:
        if name not in keys:
            raise UsageError(
                f"backend '{backend}' has no option '{name}'",
                value=repr(value),
                allowed=nearest(name, keys) if keys else "none",
            )
        values[name] = keys[name].reader.form(name, value)
        if values[name] is None:
            message = f"option '{name}' of backend '{backend}' cannot be that"
            raise UsageError(message, value=repr(value), allowed=keys[name].reader.allowed)
    return values


@dataclass(frozen=True, slots=True)
class Remedy:
    """Another way to quantize.

    Attributes
    ----------
    paste : the key of the mark as a user writes it.
    spec : the engine with it.
    more_s : seconds that building it takes beyond other remedies, as far as the backend can tell.
    is_smaller : it is meant for a file that is too large, and not tried where the size is no broken limit.
    """

    paste: str
    spec: EngineSpec
    more_s: float = 0.0
    is_smaller: bool = False


def vary_calibration(spec: EngineSpec, *methods: Calibration) -> Iterator[Remedy]:
    """Yield `spec` with each way to find ranges that it does not use already; samples and batch size stay."""
    own = spec.calibration
    for method in methods:
        calibration = replace(own, method=method.method, percentile=method.percentile)
        if calibration.method != own.method or (calibration.method == "percentile" and calibration != own):
            yield Remedy(f"calibration={_calibration_text(calibration)}", replace(spec, calibration=calibration))


def calibrate_on_all(spec: EngineSpec, samples: int) -> Remedy:
    """Return `spec` calibrated on every calibration sample of the data, whose number the paste says."""
    calibration = replace(spec.calibration, samples=samples)
    return Remedy(f"calibration={_calibration_text(calibration)}", replace(spec, calibration=calibration))


def set_option(spec: EngineSpec, name: str, value: object) -> Iterator[Remedy]:
    """Yield `spec` with one option added or replaced; nothing when the option has that value already.

    Parameters
    ----------
    spec : the engine as it is; its other options stay.
    name : of the option, one that the backend of `spec` takes.
    value : of the option, as a user writes it.
    """
    options = dict(spec.options)
    if options.get(name) != value:
        options[name] = value
        yield Remedy(f"options={options!r}", replace(spec, options=tuple(sorted(options.items()))))


def change_scheme(spec: EngineSpec, scheme: str) -> Remedy:
    """Return `spec` with another scheme of the same precision."""
    return Remedy(f"scheme={scheme!r}", replace(spec, scheme=scheme))


def exclude_nodes(spec: EngineSpec, nodes: Sequence[str]) -> Remedy:
    """Return `spec` with `nodes` left in float, in addition to those it excludes already."""
    names = (*spec.exclude, *nodes)
    return Remedy(f"exclude={list(names)!r}", replace(spec, exclude=names))


def _calibration_text(calibration: Calibration) -> str:
    """Return the value of the key ``calibration``: the method's name if nothing else is set."""
    default = asdict(Calibration())
    changed = {name: value for name, value in asdict(calibration).items() if value != default[name]}
    return repr(calibration.method) if changed.keys() <= {"method"} else repr(changed)


TF32 = "tf32"
"""The option that allows it."""

OVERRIDE = "NVIDIA_TF32_OVERRIDE"
_OFF = "0"


def is_switched_off() -> bool:
    """Whether the environment of this process switches TF32 off."""
    return os.environ.get(OVERRIDE) == _OFF


def switch_off() -> None:
    """Switch TF32 off for this process and those that it starts, for libraries that have not read the variable yet."""
    os.environ[OVERRIDE] = _OFF


def set_tf32(spec: EngineSpec, *, allowed: bool) -> EngineSpec:
    """Return `spec` with the option that allows TF32, or without it, which leaves TF32 off.

    Raises
    ------
    UsageError : it is to be allowed, and the environment of this process switches it off.
    """
    if allowed and is_switched_off():
        raise UsageError(
            "TF32 is switched off in this process, so nothing can be timed with it",
            value=f"{OVERRIDE}={_OFF} in the environment",
            fix=f"unset {OVERRIDE}; a backend that needs it so sets it for the whole run, and runs apart from this",
        )
    options = {**dict(spec.options), TF32: True}
    if not allowed:
        del options[TF32]
    return replace(spec, options=tuple(sorted(options.items())))
