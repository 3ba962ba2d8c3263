"""What a history gives back, and the text it is kept as."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_quant.errors import HistoryError
from pytest_quant.record import Json, Record, Run, from_json, run_of


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run and how many of its checks have which status, by its word."""

    run: Run
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StoredCheck:
    """One record and the run it belongs to."""

    run: Run
    record: Record


def encode(value: Json) -> str:
    """Return the text that is kept."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def decode_run(text: str) -> Run:
    """Return the run that was kept as `text`. Raises `HistoryError` when it is damaged."""
    return run_of(_parse(text))


def decode_record(text: str) -> Record:
    """Return the record that was kept as `text`. Raises `HistoryError` when it is damaged."""
    return from_json(_parse(text))


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise HistoryError(
            "a record of the history is damaged",
            value=text[:80],
            allowed="JSON",
            fix="move the history away, and the next run starts a new one",
        ) from error
