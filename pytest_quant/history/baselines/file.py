"""The file of accepted baselines, ``quant-baselines.toml``, kept in version control at the root of the project.

One table for each series. Two branches that accept the same series conflict there, which is the review.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import tomli_w

from pytest_quant.clocks import Moment
from pytest_quant.errors import HistoryError
from pytest_quant.files import file_errors, read_file, write_whole
from pytest_quant.host import quote
from pytest_quant.result import LaunchFigures
from pytest_quant.spec import SeriesKey

NAME = "quant-baselines.toml"
SCHEMA = 1

_HEADER = """\
# Baselines of pytest-quant: records that were accepted on purpose, by: pytest-quant accept --reason "..."
# max_slowdown and max_drop_increase judge against them. Review a change here as you review code.
"""
_MOST_BYTES = 16_000_000
"""The entries of some 25 000 series."""

_FIX = "correct it, or remove the entry and accept it again: pytest-quant accept --reason '...'"
_BACK = f"correct the line, or take the file back from version control: git checkout -- {NAME}"


class AcceptedLatency(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Latency on one machine, comparable on machines of the same `identity` and in the same `way` of timing only.

    `way` is that of `pytest_quant.history.rows.way_of_timing`. `speedup` and `candidate_p50_ms` are medians over the
    `launches` that were accepted, where the entry has these.
    """

    identity: Mapping[str, str]
    speedup: float | None = None
    candidate_p50_ms: float | None = None
    way: tuple[str, ...] = ()
    launches: tuple[LaunchFigures, ...] = ()


class AcceptedScores(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Scores of `n` single samples, means over `runs`, as in `AccuracyResult`; later ones are paired with them."""

    n: int
    runs: int
    candidate_correct: str | None = None
    candidate_scores: str | None = None


_Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]


class BaselineEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The accepted figures of one series: a table of the file.

    Attributes
    ----------
    test, model, backend, precision, scheme, batch_size, metric : the parts of `SeriesKey`.
    reason : for those who review the change.
    commit, run : commit and id of the run that the record is from; a removed test has no run.
    accepted_at : with a time zone.
    removed : the removal of the test was accepted; then there are no figures.
    candidate_score, drop : in `unit`.
    data : digest of the evaluation data; a drop on other data is not compared.
    size_mb, coverage_pct : of the candidate, which `pytest-quant compare` takes as accepted.
    latency : one for each machine with records, of this commit or accepted earlier.
    scores : of single samples, where they were given.
    """

    test: _Text
    model: _Text
    backend: _Text
    precision: _Text | None = None
    scheme: str | None = None
    batch_size: int
    metric: str | None = None
    reason: _Text
    commit: _Text
    run: str | None = None
    accepted_at: Annotated[Moment, msgspec.Meta(tz=True)]
    removed: bool = False
    candidate_score: float | None = None
    drop: float | None = None
    unit: str | None = None
    data: str | None = None
    size_mb: float | None = None
    coverage_pct: float | None = None
    latency: tuple[AcceptedLatency, ...] = ()
    scores: AcceptedScores | None = None

    @property
    def series(self) -> SeriesKey:
        """The series that it is of."""
        return SeriesKey(self.test, self.model, self.backend, self.precision, self.scheme, self.batch_size, self.metric)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    baseline: tuple[BaselineEntry, ...] = ()


def baseline_text(entries: Iterable[BaselineEntry]) -> str:
    """Return the text of the whole file: one table for each series in a stable order, one value per line.

    Half of a surrogate pair, as a reason on the command line may have it, is a question mark: TOML has none.
    """
    file = _File(SCHEMA, tuple(sorted(entries, key=lambda entry: entry.series.text)))
    text = _HEADER + tomli_w.dumps(_drop_none(msgspec.to_builtins(file, builtin_types=(datetime,))))
    return text.encode("utf-8", "replace").decode("utf-8")


def _drop_none(value: Any) -> Any:
    """Return a value without what is ``None``, which TOML does not have."""
    if isinstance(value, dict):
        return {name: _drop_none(part) for name, part in value.items() if part is not None}
    return [_drop_none(part) for part in value] if isinstance(value, list | tuple) else value


def read_baselines(file: Path) -> dict[str, BaselineEntry]:
    """Return the entries by series key; none when there is no file.

    Raises
    ------
    HistoryError : the file cannot be read, or is not valid, as one with an unresolved merge conflict; the message names
        the line, or the entry by its number and its test.
    """
    try:
        text = read_file(file, _MOST_BYTES).decode("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise HistoryError(f"{file} cannot be read", value=str(error), fix=_BACK) from error
    return parse_baselines(text, str(file))


def parse_baselines(text: str, file: str = NAME) -> dict[str, BaselineEntry]:
    """Return the entries of a file's text by series key, see `read_baselines`."""
    document: dict[str, Any] = {}
    try:
        document = tomllib.loads(text, parse_float=_finite)
        schema = document.get("schema")
        if isinstance(schema, int) and schema > SCHEMA:
            what, fix = f"{file} was written by a newer pytest-quant", "pip install --upgrade pytest-quant"
            raise HistoryError(what, value=f"schema {schema}", allowed=f"schema {SCHEMA} or older", fix=fix)
        # As text, for where a test has replaced Python's class of times `tomllib` makes times of that one.
        entries = msgspec.convert(msgspec.to_builtins(document, enc_hook=str), _File).baseline if document else ()
    except (ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise HistoryError(f"{file} is not valid{_name_entry(document, error)}", value=str(error), fix=_FIX) from error
    by_key = {entry.series.text: entry for entry in entries}
    for entry in entries:
        if by_key[entry.series.text] is not entry:
            what = f"{file}: a series is there twice, as a merge may leave it"
            raise HistoryError(what, value=str(entry.series), allowed="one entry of a series", fix=_FIX)
    return by_key


def _finite(text: str) -> float:
    """Return a number of the file. Raises `ValueError` for NaN and infinity, against which every verdict is luck."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no figure")
    return number


def _name_entry(document: dict[str, object], error: Exception) -> str:
    """Return the test of the entry that an error's path names; empty if it names no entry."""
    index, tables = re.search(r"\$\.baseline\[(\d+)\]", str(error)), document.get("baseline")
    if index is None or not isinstance(tables, list) or not isinstance(tables[int(index[1])], dict):
        return ""
    return f", entry {int(index[1]) + 1} of {tables[int(index[1])].get('test')}"


def write_baselines(file: Path, entries: Iterable[BaselineEntry]) -> None:
    """Write `entries` to `file`, completely or not at all. Raises `HistoryError`."""
    text = baseline_text(entries)
    with file_errors(
        HistoryError, f"{file} cannot be written", f"chmod u+w {quote(str(file))}, or make its folder writable"
    ):
        write_whole(file, text.encode())
