"""Any record as a history gives it back, and its document, which tells what an export of it must hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from pytest_quant.record import Record, from_json, to_json
from pytest_quant.report.exports.figures import check_name
from tests.unit.record.strategies import records


def _as_kept(record: Record) -> Record:
    """Return what JSON leaves of a record: NaN and infinity are null there, so that what is read has neither."""
    return from_json(to_json(record))


kept_records = records.map(_as_kept)

suites = st.lists(kept_records, max_size=3, unique_by=check_name).map(
    # One run, whose workers share the tests: of a test that each of them runs only the worst is exported.
    lambda found: [replace(one, worker=None) for one in found]
)


def numbers_of(document: Any, before: str = "") -> Iterator[tuple[str, float]]:
    """Yield each number of a record's JSON by its place, ``latency_speedup_ci_low``; lists of rows are left out."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from numbers_of(value, f"{before}{name}_")
    elif isinstance(document, list) and len(document) == 2 and before.endswith("_ci_"):
        yield from zip((f"{before}low", f"{before}high"), document, strict=True)
    elif isinstance(document, (int, float)):
        yield before.removesuffix("_"), document
