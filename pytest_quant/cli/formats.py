"""The formats that ``pytest-quant export`` writes. The help names them, so that nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from pytest_quant.history.exchange.stream import RunWithRecords
    from pytest_quant.result import Better

_Text: TypeAlias = "Callable[[Iterable[RunWithRecords], Better], Iterator[bytes]]"

NDJSON = "ndjson"
DIRECTED = "github-action-benchmark"
"""The format whose files hold figures of one direction."""


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Attributes
    ----------
    runs : how many runs a file of it holds.
    suffixes : of files that are written in it, where no format is asked for.
    text : gives the file piece by piece, from the runs and the direction that is asked for.
    """

    runs: Literal["none", "one", "many"]
    suffixes: tuple[str, ...]
    text: _Text


def format_of(asked: str | None, file: Path | None) -> str:
    """Return the name of the format that is asked for, else that of the file's suffix, else the history's own."""
    suffix = "" if file is None else file.suffix.lower()
    return asked or next((name for name, one in FORMATS.items() if suffix in one.suffixes), NDJSON)


def _ndjson(runs: Iterable[RunWithRecords], _: Better) -> Iterator[bytes]:
    from pytest_quant.history.exchange.stream import lines_of

    return lines_of(runs)


def _csv(runs: Iterable[RunWithRecords], _: Better) -> Iterator[bytes]:
    from pytest_quant.report.exports.spreadsheet import csv_lines

    for line in csv_lines(runs):
        yield line.encode()


def _openmetrics(runs: Iterable[RunWithRecords], _: Better) -> Iterator[bytes]:
    from pytest_quant.report.exports.openmetrics import openmetrics

    for run, records in runs:
        yield openmetrics(run, records).encode()


def _github_action_benchmark(runs: Iterable[RunWithRecords], better: Better) -> Iterator[bytes]:
    from pytest_quant.report.exports.github_action_benchmark import github_action_benchmark

    for run, records in runs:
        yield github_action_benchmark(run, records, better).encode()


def _bencher(runs: Iterable[RunWithRecords], _: Better) -> Iterator[bytes]:
    from pytest_quant.report.exports.bencher import bencher

    for _run, records in runs:
        yield bencher(records).encode()


def _grafana(_runs: Iterable[RunWithRecords], _: Better) -> Iterator[bytes]:
    from importlib.resources import files

    yield files("pytest_quant.report.exports").joinpath("grafana.json").read_bytes()


FORMATS: Mapping[str, Format] = {
    NDJSON: Format("many", (".jsonl", ".ndjson"), _ndjson),
    "csv": Format("many", (".csv",), _csv),
    "openmetrics": Format("one", (".prom",), _openmetrics),
    DIRECTED: Format("one", (), _github_action_benchmark),
    "bencher": Format("one", (), _bencher),
    "grafana": Format("none", (), _grafana),
}
