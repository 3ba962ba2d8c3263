"""Record <-> JSON."""

from __future__ import annotations

from typing import cast

from pytest_quant.errors import HistoryError, nearest
from pytest_quant.record.reader import Json, Reader, plain
from pytest_quant.record.record import Record, accuracy, coverage, latency, resources
from pytest_quant.result import Hint, Status, Verdict


def to_json(record: Record) -> dict[str, Json]:
    """Return `record` in plain JSON types; it survives ``json.dumps(..., allow_nan=False)``.

    Raises
    ------
    UsageError : a figure is neither a number nor a text; the message names it.
    """
    data = cast(dict[str, Json], plain(record, "record"))
    for section, field, key in (("coverage", "by_op", "op_type"), ("accuracy", "by_output", "name")):
        found = data[section]
        if isinstance(found, dict):
            rows = cast(list[dict[str, Json]], found[field])
            found[field] = {str(row.pop(key)): row for row in rows}
    return data


def from_json(data: object) -> Record:
    """Return the record that `to_json` wrote; fields that are not known are ignored.

    Raises
    ------
    HistoryError : a field is missing or has the wrong type; the message names it.
    """
    read = Reader(data, "check")
    return Record(
        nodeid=read.need_text("nodeid"),
        model=read.need_text("model"),
        backend=read.need_text("backend"),
        precision=read.need_text("precision"),
        scheme=read.text("scheme"),
        batch_size=read.need_integer("batch_size"),
        status=_status(read),
        series=read.need_text("series"),
        reference=read.need_text("reference"),
        metric=read.text("metric"),
        message=read.text("message") or "",
        accuracy=accuracy(read.child("accuracy")),
        latency=latency(read.child("latency")),
        coverage=coverage(read.child("coverage")),
        resources=resources(read.child("resources")),
        cache=None if read.child("cache") is None else read.text_by_name("cache"),
        verdicts=_verdicts(read),
        confidence=read.number("confidence"),
        calibration=read.text("calibration"),
        calibration_samples=read.integer("calibration_samples"),
        threads=read.integer("threads"),
        isa=read.need_text("isa"),
        latency_off=read.text("latency_off") or "",
        digests=read.text_by_name("digests"),
        notes=read.texts("notes"),
        samples=read.text("samples"),
        hints=tuple(_hint(row) for row in read.children("hints")),
    )


def _verdicts(read: Reader) -> tuple[Verdict, ...] | None:
    if read.is_null("verdicts"):
        return None
    return tuple(
        Verdict(
            limit=row.need_text("limit"),
            allowed=row.limit("allowed"),
            observed=row.number("observed"),
            status=_status(row),
            reason=row.text("reason") or "",
            implicit=row.flag("implicit"),
        )
        for row in read.children("verdicts")
    )


def _hint(read: Reader) -> Hint:
    return Hint(
        text=read.need_text("text"),
        paste=read.text("paste") or "",
        limit=read.text("limit") or "",
        before=read.number("before"),
        after=read.number("after"),
    )


def _status(read: Reader) -> Status:
    word = read.need_text("status")
    if word not in Status.__members__:
        raise HistoryError(f"a record cannot be read: '{word}' is no status", allowed=nearest(word, Status.__members__))
    return Status(word)
