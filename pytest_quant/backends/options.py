"""Options of a mark checked against what a backend offers; no runtime is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_quant.errors import UsageError, nearest
from pytest_quant.spec import Calibration, EngineSpec, check_percentile

Schemes = Mapping[str, tuple[str | None, ...]]


def check_offer(spec: EngineSpec, schemes: Schemes) -> None:
    """Raise `UsageError` when precision or scheme is not offered, or ``qat`` names no model."""
    if spec.precision not in schemes:
        message = f"backend '{spec.backend}' has no precision '{spec.precision}'"
        raise UsageError(message, allowed=", ".join(schemes))
    offered = schemes[spec.precision]
    if spec.scheme not in offered:
        names = ", ".join(str(name) for name in offered if name) or "no scheme"
        message = f"backend '{spec.backend}' has no scheme '{spec.scheme}' for {spec.precision}"
        raise UsageError(message, allowed=names)
    if spec.scheme == "qat" and spec.quantized is None:
        raise UsageError(
            "scheme 'qat' is for a model that arrives quantized, and none is named",
            fix="write quantized='model_int8.onnx' in the mark",
        )


def check_calibration(spec: EngineSpec, methods: Sequence[str]) -> None:
    """Raise `UsageError` when the calibration's method is not one of `methods`, or a number is out of range."""
    asked: Calibration = spec.calibration
    if asked.method not in methods:
        message = f"backend '{spec.backend}' has no calibration '{asked.method}'"
        raise UsageError(message, allowed=nearest(asked.method, methods))
    check_percentile(asked.percentile)
    for name, count in (("batch_size", asked.batch_size), ("samples", asked.samples)):
        if count is not None and count < 1:
            raise UsageError(f"calibration {name} must be at least 1", value=str(count))


@dataclass(frozen=True, slots=True)
class Rule:
    """What an option may be, in words and as a test."""

    allowed: str
    holds: Callable[[object], bool]


def one_of(*values: object) -> Rule:
    """Allow some values, compared together with their type."""
    known = [(type(value), value) for value in values]
    return Rule(", ".join(map(repr, values)), lambda value: (type(value), value) in known)


def whole_number(at_least: int) -> Rule:
    """Allow an int from `at_least` on; a bool is none."""
    text = f"an int of at least {at_least}"
    return Rule(text, lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= at_least)


FLAG = one_of(True, False)


def checked(backend: str, options: Iterable[tuple[str, object]], rules: Mapping[str, Rule]) -> dict[str, object]:
    """Return `options` by name.

    Raises
    ------
    UsageError : an option is unknown, of another type or out of range.
    """
    found: dict[str, object] = {}
    for name, value in options:
        rule = rules.get(name)
        if rule is None:
            raise UsageError(
                f"backend '{backend}' has no option '{name}'", value=repr(value), allowed=nearest(name, rules)
            )
        if not rule.holds(value):
            message = f"option '{name}' of backend '{backend}' cannot be that"
            raise UsageError(message, value=repr(value), allowed=rule.allowed)
        found[name] = value
    return found
