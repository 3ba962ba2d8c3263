"""One check, once, and one run of pytest: everything that is kept about them, and its JSON.

A frozen dataclass is an object by the names of its fields, which msgspec reads and checks by their types. Two things
differ from the fields: no number is NaN or infinite, and in a record the errors of outputs and the coverage of
operators are objects by their names.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, cast

import msgspec

from pytest_quant.clocks import now
from pytest_quant.environment.machine import fingerprint
from pytest_quant.environment.revision import Repository, ci_pull_request, ci_state, ci_target, git_state
from pytest_quant.errors import HistoryError, UsageError
from pytest_quant.result import (
    AccuracyResult,
    Cause,
    Cost,
    Count,
    Coverage,
    Environment,
    Hint,
    Interval,
    LatencyFigures,
    Portability,
    Positive,
    Resources,
    Status,
    Verdict,
)
from pytest_quant.spec import PRECISIONS, SCHEMES

SCHEMA = 1

_Origin: TypeAlias = Annotated[str, ("enum", ("built", "hit"))]


@dataclass(frozen=True, slots=True)
class Record:
    """One check, once. Sections are ``None`` when the check never came to be.

    Attributes
    ----------
    nodeid : the test, as pytest spells it.
    model : name of the model.
    backend : the runtime of the candidate, as the mark names it.
    precision : of the candidate; ``None`` where nobody knows it.
    scheme : how the candidate is quantized; ``None`` for precisions that are not quantized.
    status : the worst of the verdicts.
    series : key of the records that this one may be compared with, `SeriesKey` as text: a JSON list of the node id with
        the file's path below the top of the checkout, model, backend, precision, scheme, batch size and metric.
    accuracy : candidate against reference over the evaluation set; ``None`` also where it was off, see `accuracy_off`.
    latency : the timing; ``None`` also where it was off, see `latency_off`.
    coverage : what ran in the asked precision.
    resources : size, memory, build time and energy.
    verdicts : one for each limit.
    batch_size : samples in one timed run.
    reference : the reference engine's id, ``ort-fp32``.
    metric : the metric's name; ``None`` without one.
    message : why the check is ERROR or UNAVAILABLE, several lines; else empty.
    confidence : the level that ``--quant-confidence`` asks for; ``None`` judges `max_drop` on the measured value.
    calibration : method of a static scheme, ``minmax``; ``None`` for other schemes.
    calibration_samples : samples that it saw; ``None`` when not known.
    threads : processor threads that the candidate was given; ``None`` when its backend does not say.
    isa : best instruction set of the machine for int8, ``avx512_vnni`` for example.
    latency_off : why latency was not measured; empty when it was.
    accuracy_off : why accuracy was not measured; empty when it was.
    cache : of ``engine`` and ``reference``, whether it was built in this run or found in the cache (``hit``); a
        function is no engine, and without accuracy no reference is evaluated.
    digests : of the model, the engines and the data, by name: what a difference between two records comes from.
    notes : what else the reader should know, one sentence each.
    builds : why an engine or reference outputs were built in this run, by what was: beside the last such in the cache,
        which may be of another test.
    asked : what the mark asks of the candidate, see `EngineSpec.asked`; ``None`` where that is not known.
    changed : what differs since the series last passed, one sentence; empty where that is not known.
    portability : on which processors what was found about an INT8 engine on the CPU holds; ``None`` for any other.
    cause : where the loss on the outputs comes from; ``None`` where no limit on them is broken, or nothing shows it.
    warnings : what the reader must know of a check that passes too.
    hints : what is worth trying about the broken limits, the best first; each was measured.
    stands_in : the samples only stand in for real ones, see `Dataset.placeholder`.
    expected : the test failed as its ``xfail`` says.
    cost : seconds that the check took; ``None`` where it was not measured.
    """

    nodeid: str
    model: str
    backend: str
    precision: Annotated[str, ("enum", PRECISIONS)] | None
    scheme: Annotated[str, ("enum", SCHEMES)] | None
    batch_size: Positive
    status: Status
    series: str
    reference: str
    metric: str | None = None
    message: str = ""
    accuracy: AccuracyResult | None = None
    latency: LatencyFigures | None = None
    coverage: Coverage | None = None
    resources: Resources | None = None
    cache: Mapping[str, _Origin] | None = None
    verdicts: tuple[Verdict, ...] | None = None
    confidence: float | None = None
    calibration: str | None = None
    calibration_samples: Count | None = None
    threads: Positive | None = None
    isa: str = "unknown"
    latency_off: str = ""
    accuracy_off: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    hints: tuple[Hint, ...] = ()
    stands_in: bool = False
    expected: bool = False
    cost: Cost | None = None
    builds: Mapping[str, str] = field(default_factory=dict)
    asked: Mapping[str, str] | None = None
    changed: str = ""
    portability: Portability | None = None
    cause: Cause | None = None

    @property
    def engine_id(self) -> str:
        """The candidate's readable name, ``ort-int8-static``."""
        return "-".join(filter(None, (self.backend, self.precision, self.scheme)))


@dataclass(frozen=True, slots=True)
class Run:
    """One run of pytest.

    Attributes
    ----------
    id : unique; sorts by time.
    started_at : UTC, ISO 8601.
    commit : of the code under test, its full id; ``None`` outside a repository.
    branch : of the code under test; ``None`` outside a repository, and when it is not known.
    dirty : a tracked file differs from the commit, or git does not track the file of a test or a conftest.py above it.
    environment : machine and libraries.
    parents : of the commit, the first one first; empty when they are not known.
    merge_base : best common ancestor of the commit and `target`; ``None`` when it is not known.
    target : the branch that the work is to be merged into, without the remote's name; ``None`` when it is not known.
    pull_request : its number, from the variables of CI; ``None`` outside of one.
    tree : id of the tree of `commit`, equal for commits of equal content, as an amended, squashed or picked one may be;
        ``None`` where it is dirty or not known.
    shard : which part of the suite it ran, as pytest-split counts them: ``3/8`` is the third of eight; ``None`` where
        the suite was not split.
    deselected : node ids of the quant tests that a shard left to the others; ``None`` of a run that is no shard, or
        that did not come to its end.
    repository : its names, see `Repository.names`; records of another one are no base, and in no trend.
    skipped : why tests have no record, the reason by what was skipped before its check: a test, as `SeriesKey.planned`,
        or a file, class or folder by its path below the top of the checkout.
    uncollected : the same of what could not be collected, as a file that cannot be imported.
    partial : tests of the suite may have no record in it: a path, an option or a plugin left some out, other than those
        that a shard left to the others, or the run did not come to its end.
    """

    id: str
    started_at: str
    commit: str | None
    branch: str | None
    dirty: bool
    environment: Environment
    parents: tuple[str, ...] = ()
    merge_base: str | None = None
    target: str | None = None
    pull_request: str | None = None
    tree: str | None = None
    shard: str | None = None
    deselected: tuple[str, ...] | None = None
    repository: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    uncollected: Mapping[str, str] = field(default_factory=dict)
    partial: bool = False


BY_NAME: Mapping[str, tuple[str, str]] = {"accuracy": ("by_output", "name"), "coverage": ("by_op", "op_type")}
"""By section of a record: the list that is written as an object, and the field of its rows that is their key there."""

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EncodedRecord:
    """A record and its JSON, which are equal: neither has to be made of the other again."""

    record: Record
    json: dict[str, Json]


def encode_record(record: Record | EncodedRecord) -> EncodedRecord:
    """Return `record` with its JSON, which is made if it is missing. Raises what `to_json` raises."""
    return record if isinstance(record, EncodedRecord) else EncodedRecord(record, to_json(record))


def to_json(record: Record) -> dict[str, Json]:
    """Return `record` in plain JSON types; it survives ``json.dumps(..., allow_nan=False)``.

    Raises
    ------
    UsageError : a figure is neither a number nor a text; the message names it.
    """
    document = cast(dict[str, Any], plain(record, "record"))
    for section, (listing, key) in BY_NAME.items():
        if document[section] is not None:
            document[section][listing] = {row.pop(key): row for row in document[section][listing]}
    return document


def from_json(data: object) -> Record:
    """Return the record that `to_json` wrote; fields that are not known are ignored.

    Raises
    ------
    HistoryError : a field is missing or has the wrong type; the message names it.
    """
    if isinstance(data, dict):
        listed = {name: _list_rows(data[name], *of_rows) for name, of_rows in BY_NAME.items() if name in data}
        data = {**data, **listed}
    return decode(Record, data, "check")


def _list_rows(section: object, listing: str, key: str) -> object:
    """Return a section whose rows, an object by their names, are a list."""
    if not isinstance(section, dict) or not isinstance(rows := section.get(listing), dict):
        return section
    return {**section, listing: [{**row, key: name} if isinstance(row, dict) else row for name, row in rows.items()]}


def plain(value: object, where: str) -> Json:
    """Return `value` in the exact types that JSON and the transport of pytest-xdist know.

    NaN and infinity become ``None``, a numpy scalar the Python number it holds, an `Interval` ``[low, high]`` when
    both are finite, another dataclass a dict of its fields, a lone surrogate in a text its escape. `where` names
    the figure.

    Raises
    ------
    UsageError : `value` is something else, an array for example.
    """
    if value is None or type(value) is bool:
        return value
    if isinstance(value, str):
        # Exact types only: xdist sends no subclasses, which status words and numpy texts are.
        return str.encode(value, "utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        # Most fields of a check that passes are ``None``.
        return {
            name: None if (item := getattr(value, name)) is None else plain(item, f"{where}.{name}")
            for name in _written_fields(type(value))
        }
    if isinstance(value, Mapping):
        return {str(plain(str(key), where)): plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        # Most of a record is lists of numbers, and naming each of them would take longer than all else.
        items = [
            item if type(item) is float and math.isfinite(item) else plain(item, f"{where}[{index}]")
            for index, item in enumerate(value)
        ]
        return None if isinstance(value, Interval) and None in items else items
    return _scalar(value, where)


@cache
def _written_fields(kind: type) -> list[str]:
    """Return the fields of a dataclass that are written: all but those whose metadata says otherwise."""
    return [field.name for field in fields(kind) if field.metadata.get("kept", True)]


def _scalar(value: object, where: str) -> Json:
    """Unwrap a zero-dimensional array, of numpy or torch, without importing either."""
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "shape", None) == ():
        number = item()
        if isinstance(number, (bool, int, float, str)):
            return plain(number, where)
    shown = repr(value)
    raise UsageError(
        f"{where} cannot be kept: it is neither a number nor a text",
        value=f"{type(value).__module__}.{type(value).__name__} {shown[:80]}",
        allowed="int, float, str, bool, None, and lists and dicts of them",
        fix="let the metric or backend return float(value)",
    )


def decode(kind: type[T], data: object, where: str) -> T:
    """Return the dataclass `kind` that `plain` wrote as `data`; fields that are not known are ignored.

    Parameters
    ----------
    kind : a dataclass; its fields hold what JSON has, enumerations and further dataclasses.
    data : JSON as Python's `json` module reads it, of any content; NaN and infinity are null.
    where : what messages call it.

    Raises
    ------
    HistoryError : a field is missing or has the wrong type; the message names it.
    """
    try:
        return msgspec.json.decode(msgspec.json.encode(data), type=kind)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        # Of msgspec: "Expected `int`, got `str` - at `$.latency.rounds`".
        what, _, place = str(error).partition(" - at `$")
        raise HistoryError(
            f"a record cannot be read: {where}{place.rstrip('`')} is not what it must be",
            value=what,
            fix="import only files that pytest-quant wrote, unchanged",
        ) from error


def start_run(root: Path, shard: str | None = None) -> Run:
    """Return a new run, now, of the code at `root` on this machine; `shard` as in `Run`.

    Nothing about the code is an error, because the tests matter more: what is not known is ``None``.
    """
    began = now().replace(microsecond=0)
    in_git = git_state(root)
    # A container's user may not own the checkout, or it was given the files without .git.
    state = in_git or ci_state(os.environ)
    repository, commit = Repository(root), None if in_git is None else in_git.commit
    target = None
    # A branch that was not fetched: then there is no merge base to be kept either.
    with suppress(UsageError):
        target = None if commit is None else repository.target()
    return Run(
        id=f"{began:%Y%m%dT%H%M%SZ}-{secrets.token_hex(6)}",
        started_at=began.isoformat(),
        **asdict(state),
        environment=fingerprint(),
        parents=() if commit is None else repository.parents(commit),
        merge_base=None if commit is None or target is None else repository.merge_base(commit, target),
        target=ci_target(os.environ) if target is None else target.removeprefix("origin/"),
        pull_request=ci_pull_request(os.environ),
        tree=None if commit is None or state.dirty else repository.tree(commit),
        shard=shard,
        repository=repository.names(),
    )


def run_to_json(run: Run, records: Sequence[Record | EncodedRecord]) -> dict[str, Json]:
    """Return the document of a run, as ``--quant-json`` writes it; ``record_schema.json`` describes it."""
    return {"schema": SCHEMA, "run": plain(run, "run"), "checks": [encode_record(record).json for record in records]}


def run_from_json(document: object) -> tuple[Run, tuple[Record, ...]]:
    """Return the run and the records that `run_to_json` wrote.

    Raises
    ------
    HistoryError : it is another document, of a newer schema, or a field has the wrong type.
    """
    parts = decode(dict[str, Any], document, "document")
    schema = decode(int, parts.get("schema"), "schema")
    if schema > SCHEMA:
        raise HistoryError(
            "these records are of a newer pytest-quant",
            value=f"schema {schema}",
            allowed=f"schema {SCHEMA} or older",
            fix="pip install --upgrade pytest-quant",
        )
    return run_of(parts.get("run")), tuple(map(from_json, decode(list[Any], parts.get("checks", []), "checks")))


def run_of(data: object) -> Run:
    """Read the section ``run`` of a document. Raises `HistoryError` when a field has the wrong type."""
    return decode(Run, data, "run")
