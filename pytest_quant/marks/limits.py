"""The limits of a mark, read and checked key by key."""

from __future__ import annotations

from collections.abc import Callable

from pytest_quant.errors import UsageError
from pytest_quant.marks.values import Values, number, percent_minimum, plain_number
from pytest_quant.spec import Limits, OutputLimit


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
        percentile = _percentile(written)
        if percentile in pairs:
            raise UsageError(f"max_latency_ms names p{percentile:g} twice", value=repr(value))
        pairs[percentile] = plain_number(f"max_latency_ms[{written!r}]", allowed)
    if not pairs:
        raise UsageError("max_latency_ms is an empty dict", fix="write max_latency_ms={'p50': 3, 'p99': 9}")
    return tuple(sorted(pairs.items()))


def _percentile(written: object) -> float:
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
