"""Rows of the history's tables as values, and the digests that decide which rows may be compared."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from pytest_quant.errors import HistoryError
from pytest_quant.files import inflate, parse_json
from pytest_quant.record import EncodedRecord, Json, Record, Run, encode_record, from_json, run_of, run_to_json
from pytest_quant.result import LatencyFigures, LatencyResult, LaunchFigures

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

MOST_INDEXED = 600
"""Letters in a column with an index: PostgreSQL indexes 2700 bytes, and a letter has up to four."""

Row = dict[str, object]
"""The values of one row of a table, by column."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run, and the number of its checks by status."""

    run: Run
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StoredCheck:
    """One record and the run it belongs to.

    `first` is the pass that its accuracy comes from, where that is another run, and `passes` says how both were joined
    or why they were not, see `pytest_quant.history.two_passes`.
    """

    run: Run
    record: Record
    first: StoredCheck | None = None
    passes: str = ""


def commit_of(checks: Sequence[StoredCheck]) -> str | None:
    """Return the commit of the last run; the runs of one side have one, or several with the same content."""
    return checks[-1].run.commit if checks else None


def group_items(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the items by what `key` says of each, in the given order."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def run_row(run: Run) -> Row:
    """Return the row of a run, without its number."""
    named = {"commit": run.commit, "branch": run.branch, "tree": run.tree}
    return {
        "id": shorten_for_index(run.id),
        "started_at": shorten_for_index(to_utc(run.started_at)),
        **{name: text and shorten_for_index(text) for name, text in named.items()},
        "dirty": run.dirty,
        "repository": shorten_for_index(" ".join(run.repository)),
        "run": encode(run_to_json(run, [])["run"]),
    }


def searchable(text: str) -> str:
    """Return a text that every database stores: PostgreSQL refuses NUL, and all refuse a lone surrogate."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\u0000")


def shorten_for_index(text: str) -> str:
    """Return a text as a column with an index has it: a text that is too long for an index ends in its digest."""
    text = searchable(text)
    if len(text) <= MOST_INDEXED:
        return text
    return f"{id_start(text)}~{hashlib.sha256(text.encode()).hexdigest()}"


def id_start(beginning: str) -> str:
    """Return the beginning of an id as its column has it, of one that is too long too."""
    return searchable(beginning)[: MOST_INDEXED - 65]


def to_utc(time: str) -> str:
    """Return an ISO 8601 time in UTC, so that texts sort as times do; a text that is no time is returned as it is."""
    try:
        read = datetime.fromisoformat(time)
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        # In the first and the last hours that Python can tell, another zone is beyond them.
        return searchable(time)


def encode(value: Json) -> str:
    """Return `value` as compact JSON, as it is stored."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def pack(record: Record | EncodedRecord) -> bytes:
    """Return a record as it is stored: JSON, compressed."""
    return zlib.compress(encode(encode_record(record).json).encode())


MOST_RECORD_BYTES = 64_000_000
"""Of a record's JSON; the largest of ours have some 100 kB, and zlib packs a thousand times as much into that."""


def decode_run(text: str, where: str = "a run") -> Run:
    """Return the run that is stored as `text`; `where` names it in messages. Raises `HistoryError` when damaged."""
    return decode_json(run_of, text, where)


def unpack(packed: bytes | None, where: str = "a record") -> Record:
    """Return the record stored as `packed`; `where` names it in messages. Raises `HistoryError` when damaged."""
    if packed is None:
        raise HistoryError(f"{where} of the history is damaged: its details are missing")
    return decode_json(from_json, packed, where)


def decode_json(read: Callable[[object], T], stored: str | bytes, where: str) -> T:
    """Return what `read` makes of JSON, stored as text or, compressed, as bytes; `where` names it in messages.

    Raises
    ------
    HistoryError : it is damaged.
    """
    try:
        return read(parse_json(inflate(stored, MOST_RECORD_BYTES) if isinstance(stored, bytes) else stored))
    except HistoryError as error:
        raise HistoryError(f"{where}: {error.what}", value=error.value, allowed=error.allowed, fix=error.fix) from error
    except (TypeError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        what = f"{where} of the history is damaged: {error}"
        fix = "pytest-quant history prune --run RUN removes its run; pytest-quant history export FILE leaves it out"
        raise HistoryError(what, value=repr(stored[:80]), allowed="JSON", fix=fix) from error


def version_of(record: Record) -> str:
    """Return a short digest of evaluation data, metric, unit and direction of the metric.

    Two records of one series with different versions are never compared. Empty without accuracy.
    """
    accuracy = record.accuracy
    if accuracy is None:
        return ""
    return _digest([record.digests.get("data"), accuracy.metric, accuracy.unit, accuracy.better])


def is_second_pass(record: Record) -> bool:
    """Whether all but the accuracy of the check was measured, see `pytest_quant.history.two_passes`."""
    return bool(record.accuracy_off) and record.verdicts is not None


def identity_of(run: Run, record: Record) -> str:
    """Return a short digest of all that must be equal before latencies are compared.

    These are the machine's identity (see `Environment`), the provider, the threads where the record has them, and the
    way of timing where it is not the usual one.
    """
    machine: list[Json] = [[name, value] for name, value in sorted(run.environment.identity.items())]
    provider = record.coverage.provider if record.coverage else None
    return _digest([machine, provider, record.threads, *way_of_timing(record.latency)])


def describe_identity(identity: Mapping[str, str]) -> list[str]:
    """Return the parts of a machine's identity by which it is recognized."""
    parts = [name for name in ("gpu", "cpu", "isa", "cores") if name in identity]
    plural = "" if identity.get("cores") == "1" else "s"
    return [f"{identity[name]} core{plural}" if name == "cores" else identity[name] for name in parts]


def machine_of(identity: Mapping[str, str]) -> str:
    """Return a short digest of a machine's identity, see `Environment`: all that latencies of it have in common."""
    return _digest([[name, value] for name, value in sorted(identity.items())])


def way_of_timing(latency: LatencyFigures | LatencyResult | None) -> tuple[str, ...]:
    """Return what a speedup depends on beside engine and machine, in words; empty if all of it is as usual."""
    if latency is None:
        return ()
    against = () if latency.reference_precision == "fp32" else (f"against {latency.reference_precision}",)
    clock = () if latency.clock == "host" else (f"by the {latency.clock}'s clock",)
    shapes = (f"on {latency.sample.inputs}",) if latency.sample and latency.sample.shapes else ()
    return *against, *clock, *(("on pages of 4 KB",) if latency.small_pages else ()), *shapes


def describe_timing(launch: StoredCheck) -> str:
    """Return the recognizable parts of a machine's identity, the provider that ran, and what it was timed against."""
    provider = launch.record.coverage.provider if launch.record.coverage else ""
    described = describe_identity(launch.run.environment.identity)
    return ", ".join([*described, *([provider] if provider else []), *way_of_timing(launch.record.latency)])


def launches_in(check: StoredCheck) -> tuple[LaunchFigures, ...]:
    """Return the launches that a record holds, none if its numbers cannot be trusted."""
    latency = check.record.latency
    if latency is None or latency.reasons:
        return ()
    # Here, because it loads numpy, which lists of the history do without.
    from pytest_quant.stats.launches import launch_of

    return (launch_of(latency, check.run.started_at), *latency.launches)


def _digest(parts: list[Json]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
