"""Reading one value of a mark: its type, its range, its nearest valid choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from numbers import Integral, Real

from pytest_quant.errors import UsageError, nearest
from pytest_quant.metrics import Metric, metric_by_name
from pytest_quant.spec import Calibration, ChannelGroup, Limits, OutputLimit, check_percentile

Values = Mapping[str, object]
"""Keys of a mark; a key that is absent or ``None`` is not set."""


def number(values: Values, key: str) -> float | None:
    """Read a finite number that is at least 0."""
    value = values.get(key)
    return None if value is None else plain_number(key, value)


def plain_number(key: str, value: object) -> float:
    """Return `value`, a whole number as it is and any other as a float; refuse what is not finite and at least 0.

    Messages write a limit as its mark does: ``1`` stays ``1``, and ``1.0`` stays ``1.0``.
    """
    if isinstance(value, list):
        raise UsageError(
            f"{key} takes one number, not a list",
            value=repr(value),
            allowed="lists of backend, precision, scheme and batch_size parametrize; limits hold for each of them",
        )
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UsageError(f"{key} must be a number", value=repr(value), fix=f"write {key}=1.0")
    found = float(value)
    if not math.isfinite(found) or found < 0.0:
        raise UsageError(f"{key} must be finite and at least 0", value=repr(value), fix=f"write {key}=1.0")
    return int(value) if isinstance(value, Integral) else found


def percent_minimum(values: Values, key: str) -> float | None:
    """Read a minimum in percent; a share between 0 and 1 is a mistake that would let nearly anything pass."""
    value = values.get(key)
    found = number(values, key)
    if found is not None:
        refuse_share(key, value, found)
    return found


def refuse_share(key: str, value: object, found: float) -> None:
    """Refuse a percentage written as a share, or above 100; the float 1.0 is a share, the int 1 is one percent."""
    if 0.0 < found < 1.0 or (found == 1.0 and isinstance(value, float)):
        raise UsageError(f"{key} is in percent", value=repr(value), allowed="0 to 100", fix=f"write {100 * found:g}")
    if found > 100.0:
        raise UsageError(f"{key} is in percent", value=repr(value), allowed="0 to 100", fix=f"write {key}=100")


def choice(key: str, value: object, known: Iterable[str]) -> str:
    """Return `value` if it is one of the `known` names."""
    names = tuple(known)
    if not isinstance(value, str):
        raise UsageError(f"{key} must be a name", value=repr(value), allowed=", ".join(sorted(names)))
    if value not in names:
        raise UsageError(f"unknown {key} '{value}'", allowed=nearest(value, names))
    return value


def choices(values: Values, key: str, known: Iterable[str]) -> tuple[str, ...]:
    """Read a name or a list of names; an unset key gives none."""
    names = tuple(known)
    return tuple(dict.fromkeys(choice(key, value, names) for value in _listed(values, key)))


def counts(values: Values, key: str) -> tuple[int, ...]:
    """Read a count of at least 1 or a list of them; an unset key gives none."""
    return tuple(dict.fromkeys(count(key, value) for value in _listed(values, key)))


def count(key: str, value: object) -> int:
    """Return `value` if it is an int of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise UsageError(f"{key} must be a whole number of at least 1", value=repr(value), fix=f"write {key}=1")
    return int(value)


def text(values: Values, key: str) -> str | None:
    """Read a text that is not empty."""
    value = values.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{key} must be a name", value=repr(value), fix=f"write {key}='name'")
    return value


def _listed(values: Values, key: str) -> list[object] | tuple[object, ...]:
    value = values.get(key)
    if value is None:
        return ()
    if isinstance(value, (list, tuple)):
        if not value:
            raise UsageError(f"{key} is an empty list", allowed="one value or several", fix=f"leave {key} out")
        return value
    return (value,)


METHODS = ("entropy", "minmax", "percentile")
_NAMES = ("batch_size", "method", "percentile", "samples")


def read_calibration(value: object | None) -> Calibration:
    """Read the key; ``None`` is the default calibration."""
    if value is None:
        return Calibration()
    if isinstance(value, Calibration):
        value = asdict(value)
    if isinstance(value, str):
        return Calibration(method=choice("calibration", value, METHODS))
    if not isinstance(value, dict):
        raise UsageError(
            "calibration must be a method or a dict",
            value=repr(value),
            allowed=f"{', '.join(METHODS)}, or a dict of {', '.join(_NAMES)}",
            fix="write calibration={'method': 'percentile', 'percentile': 99.99, 'samples': 200}",
        )
    for name in value:
        if name not in _NAMES:
            raise UsageError(f"calibration has no key {name!r}", allowed=nearest(str(name), _NAMES))
    default = Calibration()
    samples = value.get("samples")
    return Calibration(
        method=choice("calibration method", value.get("method", default.method), METHODS),
        percentile=check_percentile(
            plain_number("calibration percentile", value.get("percentile", default.percentile))
        ),
        samples=None if samples is None else count("calibration samples", samples),
        batch_size=count("calibration batch_size", value.get("batch_size", default.batch_size)),
    )


_AXIS = "axis"
_EXAMPLE = "write channels={'output0': {'axis': 1, 'boxes': (0, 4), 'scores': (4, 84)}}"


def read_channels(value: object | None) -> tuple[ChannelGroup, ...]:
    """Read the key; which outputs there are and how many channels they have, the model tells."""
    if value is None:
        return ()
    if not isinstance(value, dict) or not value:
        raise UsageError("channels must be a dict by output", value=repr(value), fix=_EXAMPLE)
    return tuple(group for output, groups in value.items() for group in _of_output(output, groups))


def _of_output(output: object, groups: object) -> Iterator[ChannelGroup]:
    if not isinstance(output, str) or not output:
        raise UsageError("channels has a key that is no output's name", value=repr(output), fix=_EXAMPLE)
    where = f"channels[{output!r}]"
    if not isinstance(groups, dict) or not set(groups) - {_AXIS}:
        raise UsageError(f"{where} must be a dict with a range for each group", value=repr(groups), fix=_EXAMPLE)
    axis = groups.get(_AXIS, 1)
    if isinstance(axis, bool) or not isinstance(axis, int) or axis == 0:
        raise UsageError(
            f"{where} has an axis that holds no channels",
            value=repr(axis),
            allowed="a whole number: 1 is the first axis after that of the samples, -1 the last",
        )
    for name, limits in groups.items():
        if name == _AXIS:
            continue
        if not isinstance(name, str) or not name:
            raise UsageError(f"{where} has a group without a name", value=repr(name), fix=_EXAMPLE)
        first, end = _range(f"{where}[{name!r}]", limits)
        yield ChannelGroup(output, name, axis, first, end)


def _range(where: str, value: object) -> tuple[int, int | None]:
    if isinstance(value, (tuple, list)) and len(value) == 2:
        first, end = value
        if _is_count(first) and (end is None or (_is_count(end) and end > first)):
            return first, end
    raise UsageError(
        f"{where} must be a range of channels",
        value=repr(value),
        allowed="(first, end): the first channel from 0, and the one after the last, or None for all that follow",
        fix=_EXAMPLE,
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def read_limits(values: Values) -> Limits:
    """Read every limit; an unset one is ``None``.

    `min_accuracy` is in the unit of a metric that another mark may name, so only its type is checked here.
    """
    return Limits(
        max_drop=number(values, "max_drop"),
        min_ratio=number(values, "min_ratio"),
        min_accuracy=number(values, "min_accuracy"),
        min_agreement=percent_minimum(values, "min_agreement"),
        min_sqnr_db=_on_outputs(values, "min_sqnr_db", plain_number),
        min_cosine=_on_outputs(values, "min_cosine", _cosine),
        max_abs_error=_on_outputs(values, "max_abs_error", plain_number),
        max_latency_ms=_latency(values),
        min_speedup=number(values, "min_speedup"),
        max_size_mb=number(values, "max_size_mb"),
        max_memory_mb=number(values, "max_memory_mb"),
        max_build_s=number(values, "max_build_s"),
        max_energy_mj=number(values, "max_energy_mj"),
        min_coverage=percent_minimum(values, "min_coverage"),
        max_slowdown=number(values, "max_slowdown"),
        max_drop_increase=number(values, "max_drop_increase"),
    )


def _on_outputs(values: Values, key: str, read: Callable[[str, object], float]) -> OutputLimit | None:
    """Return one limit for every output, or ``(output, limit)`` pairs; which outputs there are, the model tells."""
    value = values.get(key)
    if not isinstance(value, dict):
        return None if value is None else read(key, value)
    if not value:
        raise UsageError(f"{key} is an empty dict", allowed="limits by output", fix=f"write {key}={{'scores': 20}}")
    for name in value:
        if not isinstance(name, str) or not name:
            raise UsageError(f"{key} has a key that is no output's name", value=repr(name), allowed="a text")
    return tuple((name, read(f"{key}[{name!r}]", allowed)) for name, allowed in value.items())


def _cosine(key: str, value: object) -> float:
    found = plain_number(key, value)
    if found > 1.0:
        raise UsageError(f"{key} lies between 0 and 1", value=f"{found:g}", fix="write min_cosine=0.99")
    return found


def _latency(values: Values) -> tuple[tuple[float, float], ...]:
    """Return ``(percentile, milliseconds)`` pairs in the order of the percentiles; a plain number is the median."""
    value = values.get("max_latency_ms")
    if value is None:
        return ()
    if not isinstance(value, dict):
        return ((50.0, plain_number("max_latency_ms", value)),)
    pairs: dict[float, float] = {}
    for written, allowed in value.items():
        percentile = _percentile_of_limit(written)
        if percentile in pairs:
            raise UsageError(f"max_latency_ms names p{percentile:g} twice", value=repr(value))
        pairs[percentile] = plain_number(f"max_latency_ms[{written!r}]", allowed)
    if not pairs:
        raise UsageError("max_latency_ms is an empty dict", fix="write max_latency_ms={'p50': 3, 'p99': 9}")
    return tuple(sorted(pairs.items()))


def _percentile_of_limit(written: object) -> float:
    """Read ``"p99"``, ``"99"`` or ``99``."""
    digits = written.removeprefix("p") if isinstance(written, str) else written
    try:
        percentile = float(digits) if isinstance(digits, (int, float, str)) else -1.0
    except ValueError:
        percentile = -1.0
    if isinstance(written, bool) or not 0.0 < percentile < 100.0:
        raise UsageError(
            "max_latency_ms has a key that is no percentile",
            value=repr(written),
            allowed="'p50', 'p99', or 99: between 0 and 100",
            fix="write max_latency_ms={'p50': 3, 'p99': 9}",
        )
    return percentile


def read_metric(value: object | None) -> str | Metric | None:
    """Read a metric's name or a `Metric`; an unknown name is a `UsageError` that names the nearest."""
    if value is None or isinstance(value, Metric):
        return value
    if isinstance(value, str):
        metric_by_name(value)
        return value
    raise UsageError(
        "metric must be a name or a Metric",
        value=repr(value),
        allowed="the direction of a bare callable cannot be guessed",
        fix="wrap it: metric=pytest_quant.Metric(fn, better='higher', unit='%', scale=100)",
    )


def check_accuracy(value: object | None, metric: str | Metric | None) -> None:
    """Refuse a `min_accuracy` written as a share when the metric is in percent."""
    if value is None:
        return
    found = metric_by_name(metric) if isinstance(metric, str) else metric
    if found is None or found.unit == "%":
        refuse_share("min_accuracy", value, plain_number("min_accuracy", value))
