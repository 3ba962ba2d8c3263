"""Files with one row for each sample: JSON lines, CSV and Parquet, read one row at a time, and lists in JSON."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import DataError, UsageError, nearest
from pytest_quant.files import file_errors, open_file
from pytest_quant.printable import shorten

MOST_LINE_BYTES = 64_000_000
"""Of one row: a prompt of a million tokens is a tenth of it."""

MOST_DOCUMENT_BYTES = 1_000_000_000
"""Of one JSON value with all samples, which is read into memory."""

_ANSWERS = {"true": True, "false": False}
"""Of CSV in small letters: spreadsheets, pandas and other programs write them in different ones."""

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Iterator[tuple[str, Row]]
"""Where a row stands, for messages, and the row."""


@dataclass(frozen=True, slots=True)
class ScoreRun:
    """The scores of one run of one side.

    Attributes
    ----------
    where : its file, for messages.
    ids : of the samples, in the order of the file.
    scores : float64 (n,), finite; (n, 2) for numerators and denominators of a ratio of their sums.
    prompts : what identifies the prompt of each sample; empty texts where the file does not tell.
    clusters : what samples that depend on each other share; empty texts for independent ones.
    origin : what only its copies share, its answers, its seeds or its path; empty where nobody tells.
    """

    where: str
    ids: tuple[str, ...]
    scores: NDArray[np.float64]
    prompts: tuple[str, ...]
    clusters: tuple[str, ...]
    origin: str = ""


def run_of(
    where: str,
    rows: Rows,
    id_key: str,
    score_key: str | Mapping[str, str],
    prompt_of: Callable[[Row], str] = lambda _: "",
    task: str = "",
    cluster_key: object = None,
) -> ScoreRun:
    """Return the scores of `rows`.

    Parameters
    ----------
    where : the file, for messages.
    id_key, score_key, cluster_key : names of values in a row, see `value_of`, or of the two parts of a score; the last
        is ``None`` for independent samples.
    prompt_of : what identifies the prompt of a row.
    task : of lm-eval, for messages.

    Raises
    ------
    DataError : a row has no such value, one of another type, or the id of another row; or there is no row, or none
        with a weight.
    """
    scores: dict[str, float | tuple[float, float]] = {}
    prompts: list[str] = []
    clusters: list[str] = []
    for place, row in rows:
        sample = _name(place, row, id_key, "id")
        if sample in scores:
            what = f"{place}: another row has the id {sample!r}, and scores are paired by id"
            of = f"a task, here {task}" if task else "a task"
            fix = f"give one file for each run of {of}, or a key that differs: id='...'"
            raise DataError(what, allowed=f"one row for each {id_key}", fix=fix)
        scores[sample] = _score(place, row, score_key)
        clusters.append("" if cluster_key is None else _name(place, row, str(cluster_key), "cluster"))
        prompts.append(prompt_of(row) + clusters[-1])
    if not scores:
        raise DataError(f"{where} has no row", fix="run the harness again, and look at what it printed")
    figures = np.array(list(scores.values()), np.float64)
    if figures.ndim == 2 and not figures[:, 1].any():
        raise DataError(f"{where}: the weights of all samples are 0", fix="leave it out, or give weights to samples")
    return ScoreRun(where, tuple(scores), figures, tuple(prompts), tuple(clusters))


def _score(place: str, row: Row, key: str | Mapping[str, str]) -> float | tuple[float, float]:
    """Return the score of a row; numerator and denominator where it has two parts."""
    if isinstance(key, str):
        return _number(place, value_of(place, row, key), key)
    parts = {part: _number(place, value_of(place, row, name), name) for part, name in key.items()}
    weight = parts.get("weight", parts.get("denominator", 0.0))
    if weight < 0.0:
        raise DataError(f"{place}: a weight is {weight:g}", allowed="0 or more")
    return parts["score"] * weight if "score" in parts else parts["numerator"], weight


def value_of(place: str, row: Row, key: str) -> Any:
    """Return the value called `key`, in which dots lead into objects. Raises `DataError` if it is missing."""
    if key in row:
        return row[key]
    try:
        return reduce(lambda part, name: part[int(name) if isinstance(part, list) else name], key.split("."), row)
    except (LookupError, TypeError, ValueError):
        numbers = [name for name, value in row.items() if isinstance(value, (int, float))]
        # Cells beyond the head of a CSV have no name.
        names = nearest(key, map(str, numbers or row))
        raise DataError(f"{place}: there is no '{key}'", allowed=names, fix="name the key of a number in it") from None


def _name(place: str, row: Row, key: str, what: str) -> str:
    """Return the id or the cluster of a row, `what` it is."""
    value = value_of(place, row, key)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        fix = f"name the key that tells samples apart, in place of '{key}': {what}='...'"
        raise DataError(f"{place}: an id is a text or a whole number", value=shorten(repr(value)), fix=fix)
    # Half of a surrogate pair, which JSON may have, is in no text that is written.
    return str(value).encode("utf-8", "backslashreplace").decode()


def _number(place: str, value: object, key: str) -> float:
    if isinstance(value, str):
        with suppress(ValueError):
            value = _ANSWERS[answer] if (answer := value.strip().lower()) in _ANSWERS else float(value)
    if not isinstance(value, (int, float)):
        allowed = "a number for each sample, true or false"
        fix = "name a metric that is the mean of one number for each sample; a list belongs to a metric that is not"
        raise DataError(f"{place}: '{key}' is not a number", value=shorten(repr(value)), allowed=allowed, fix=fix)
    number = math.inf
    with suppress(OverflowError):
        number = float(value)
    if not math.isfinite(number):
        fix = "give such a sample the worst score; in files, its row may also be left out, see missing='worst'"
        raise DataError(f"{place}: '{key}' is {number}", allowed="a finite number", fix=fix)
    return number


def rows_of(path: Path) -> Rows:
    """Yield the rows of a file. Raises `DataError` or `UsageError`."""
    readers = {".jsonl": _json, ".ndjson": _json, ".json": _json, ".csv": _csv, ".parquet": _parquet}
    if path.suffix.lower() not in readers:
        allowed = ", ".join(readers)
        raise UsageError("Scores: the ending decides how a file is read", value=path.name, allowed=allowed)
    with file_errors(DataError, f"{path} cannot be read", "look whether the run that writes it has ended"):
        yield from readers[path.suffix.lower()](path)


def _json(path: Path) -> Rows:
    with open_file(path) as stream:
        listed = _read_list(stream)
        stream.seek(0)
        samples = ((f"{path.name}, sample {number}", row) for number, row in enumerate(listed, 1))
        lines = ((place, _decode(place, line)) for place, line in _lines(stream, path.name) if line.strip())
        for place, row in samples if listed else lines:
            if not isinstance(row, dict):
                allowed = '{"id": ..., "score": ...}'
                raise DataError(f"{place}: it is no object", value=shorten(repr(row)), allowed=allowed)
            yield place, row


def _read_list(stream: BinaryIO) -> list[object]:
    """Return the samples of a file that is one value, a list or an object with a list; none for a row in each line."""
    first, second = stream.readline(MOST_LINE_BYTES), stream.readline(MOST_LINE_BYTES)
    if second and first.startswith(b"{") and first.rstrip().endswith(b"}"):
        return []
    with suppress(DataError):
        value = _decode("", first + second + stream.read(MOST_DOCUMENT_BYTES))
        parts = value.items() if isinstance(value, dict) else [("samples", value)]
        lists = {name: part for name, part in parts if isinstance(part, list) and dict in map(type, part)}
        return lists.get("samples", lists.popitem()[1] if len(lists) == 1 else [])
    return []


def _lines(stream: BinaryIO, name: str) -> Iterator[tuple[str, bytes]]:
    for number, line in enumerate(iter(partial(stream.readline, MOST_LINE_BYTES + 1), b""), 1):
        if len(line) > MOST_LINE_BYTES:
            what = f"{name}, line {number}: it has more than {MOST_LINE_BYTES} bytes"
            raise DataError(what, fix="write one sample in a line")
        yield f"{name}, line {number}", line


def _decode(place: str, text: bytes) -> object:
    # Python's own writer puts NaN into what is no JSON then; its reader takes it, as other values may be needed.
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = shorten(repr(text[:80].decode("utf-8", "replace")))
        fix = "write one object in a line, or one list in the file; if it was cut, look whether the run has ended"
        raise DataError(f"{place}: it is no JSON, {error}", value=shown, fix=fix) from error


def _csv(path: Path) -> Rows:
    csv.field_size_limit(10_000_000)
    with open_file(path) as stream:
        lines = (line.decode("utf-8-sig") for _, line in _lines(stream, path.name))
        reader = csv.DictReader(lines, strict=True)
        try:
            for row in reader:
                yield f"{path.name}, line {reader.line_num}", row
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{path.name}, line {reader.line_num + 1}: it is no CSV in UTF-8, {error}") from error


def _parquet(path: Path) -> Rows:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise UsageError(f"Scores: {path.name} needs pyarrow", fix='pip install "pytest-quant[parquet]"') from None
    try:
        with open_file(path) as stream:
            batches = parquet.ParquetFile(stream).iter_batches()
            for number, row in enumerate((row for batch in batches for row in batch.to_pylist()), 1):
                yield f"{path.name}, row {number}", row
    except (ArrowException, ValueError, OverflowError) as error:
        # Also values that Python has no type for: times in nanoseconds, text in another encoding.
        raise DataError(f"{path.name} is no Parquet file that can be read", value=str(error)) from error
