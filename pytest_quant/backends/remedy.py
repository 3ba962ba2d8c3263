"""What a backend may offer against a broken limit: other ways to quantize, each ready to paste into the mark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from pytest_quant.spec import Calibration, EngineSpec


@dataclass(frozen=True, slots=True)
class Remedy:
    """Another way to quantize.

    Attributes
    ----------
    paste : the key of the mark as a user writes it.
    spec : the engine with it.
    more_s : seconds that building it takes beyond other remedies, as far as the backend can tell.
    """

    paste: str
    spec: EngineSpec
    more_s: float = 0.0


def calibrated(spec: EngineSpec, *methods: Calibration) -> Iterator[Remedy]:
    """Yield `spec` with each way to find ranges that it does not use already; samples and batch size stay."""
    own = spec.calibration
    for method in methods:
        calibration = replace(own, method=method.method, percentile=method.percentile)
        if calibration.method != own.method or (calibration.method == "percentile" and calibration != own):
            yield Remedy(f"calibration={_calibration_text(calibration)}", replace(spec, calibration=calibration))


def with_all_samples(spec: EngineSpec) -> Remedy:
    """Return `spec` calibrated on every calibration sample of the data."""
    calibration = replace(spec.calibration, samples=None)
    return Remedy(f"calibration={_calibration_text(calibration)}", replace(spec, calibration=calibration))


def with_option(spec: EngineSpec, name: str, value: object) -> Iterator[Remedy]:
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


def with_scheme(spec: EngineSpec, scheme: str) -> Remedy:
    """Return `spec` with another scheme of the same precision."""
    return Remedy(f"scheme={scheme!r}", replace(spec, scheme=scheme))


def without(spec: EngineSpec, nodes: Sequence[str]) -> Remedy:
    """Return `spec` with `nodes` left in float, in addition to those it excludes already."""
    names = (*spec.exclude, *nodes)
    return Remedy(f"exclude={list(names)!r}", replace(spec, exclude=names))


def _calibration_text(calibration: Calibration) -> str:
    """Return the value of the key ``calibration``: the method's name where nothing else is set."""
    default = Calibration()
    changed = {
        field.name: getattr(calibration, field.name)
        for field in fields(calibration)
        if getattr(calibration, field.name) != getattr(default, field.name)
    }
    return repr(calibration.method) if changed.keys() <= {"method"} else repr(changed)
