"""The text of a baseline file, written so that a diff of it reads well."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime

from pytest_quant.errors import UsageError
from pytest_quant.history.baseline_entry import AcceptedLatency, BaselineEntry

SCHEMA = 1

_HEADER = f"""\
# Baselines of pytest-quant: records that were accepted on purpose, by: pytest-quant accept --reason "..."
# max_slowdown and max_drop_increase judge against them. Review a change here as you review code.
schema = {SCHEMA}
"""


def baseline_text(entries: Iterable[BaselineEntry]) -> str:
    """Return the whole file: one table for each series in a stable order, one value in a line.

    Raises
    ------
    UsageError : a name has characters that a text file cannot hold.
    """
    ordered = sorted(entries, key=lambda entry: entry.series.key)
    return "\n".join([_HEADER, *(entry_text(entry) for entry in ordered)])


def entry_text(entry: BaselineEntry) -> str:
    """Return the table of one series."""
    return "\n".join(["[[baseline]]", *_lines(entry)]) + "\n"


def _lines(entry: BaselineEntry) -> Iterator[str]:
    series = entry.series
    yield from _pairs(
        {
            "test": series.test,
            "model": series.model,
            "backend": series.backend,
            "precision": series.precision,
            "scheme": series.scheme,
            "batch_size": series.batch_size,
            "metric": series.metric,
            "reason": entry.reason,
            "commit": entry.commit,
            "run": entry.run,
            "accepted_at": entry.accepted_at,
            "expires": entry.expires,
            "removed": entry.removed or None,
            "candidate_score": entry.candidate_score,
            "drop": entry.drop,
            "unit": entry.unit,
            "data": entry.data,
        }
    )
    for latency in sorted(entry.latency, key=lambda one: sorted(one.identity.items())):
        yield from _latency_lines(latency)


def _latency_lines(latency: AcceptedLatency) -> Iterator[str]:
    machine = ", ".join(f"{_text(name)} = {_text(value)}" for name, value in sorted(latency.identity.items()))
    yield "[[baseline.latency]]"
    yield from _pairs({"speedup": latency.speedup, "candidate_p50_ms": latency.candidate_p50_ms})
    yield f"identity = {{ {machine} }}"


def _pairs(values: Mapping[str, object]) -> Iterator[str]:
    return (f"{name} = {_value(value)}" for name, value in values.items() if value is not None)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        # TOML wants a digit on both sides of the point, and Python writes 1e-07 without one.
        mantissa, e, exponent = repr(value).partition("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}{e}{exponent}"
    if isinstance(value, int):
        return str(value)
    return _text(str(value))


def _text(value: str) -> str:
    """Return a TOML string in which everything that does not print is an escape."""
    return '"' + "".join(map(_character, value)) + '"'


def _character(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if "\ud800" <= char <= "\udfff":
        raise UsageError(
            "a name that is no text cannot be kept in a baseline file",
            value=ascii(char),
            fix="rename the test or its file so that the name is UTF-8",
        )
    if char.isprintable():
        return char
    return f"\\u{ord(char):04X}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08X}"
