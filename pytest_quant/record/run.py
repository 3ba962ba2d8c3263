"""One run of pytest with its records as one document, and the commits it comes from."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_quant.clocks import now
from pytest_quant.environment.machine import fingerprint
from pytest_quant.environment.revision import Repository, ci_pull_request, ci_state, ci_target, git_state
from pytest_quant.errors import HistoryError, UsageError
from pytest_quant.record.record import Encoded, Json, Record, decode, encoded, from_json, plain
from pytest_quant.result import Environment

SCHEMA = 1


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
        commit=state.commit,
        branch=state.branch,
        dirty=state.dirty,
        environment=fingerprint(),
        parents=() if commit is None else repository.parents(commit),
        merge_base=None if commit is None or target is None else repository.merge_base(commit, target),
        target=ci_target(os.environ) if target is None else target.removeprefix("origin/"),
        pull_request=ci_pull_request(os.environ),
        tree=None if commit is None or state.dirty else repository.tree(commit),
        shard=shard,
        repository=repository.names(),
    )


def run_to_json(run: Run, records: Sequence[Record | Encoded]) -> dict[str, Json]:
    """Return the document of a run, as ``--quant-json`` writes it; ``record_schema.json`` describes it."""
    return {"schema": SCHEMA, "run": plain(run, "run"), "checks": [encoded(record).json for record in records]}


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
