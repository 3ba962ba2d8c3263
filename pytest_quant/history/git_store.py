"""A history on a branch of its own in a git remote, for teams without a database: one new file for each run.

Files are never changed, so two jobs that push at once add different ones, and the later builds on top of the
earlier. The branch shares no commit with the code and is never checked out.
"""

from __future__ import annotations

import hashlib
import io
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_quant.errors import HistoryError
from pytest_quant.history.git_files import GitFiles
from pytest_quant.history.stream import RunWithRecords, header_line, read_lines, run_line
from pytest_quant.record import Run

if TYPE_CHECKING:
    from pytest_quant.history.store import Store

BRANCH = "pytest-quant-history"

_FOLDER = "runs/"
_ATTEMPTS = 30
_LONGEST_PAUSE_S = 2.0
_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])(?=-)")


@dataclass(frozen=True, slots=True)
class Pulled:
    """What `pull` found: runs added, runs that were there, and why files were refused, one text each."""

    added: int
    known: int
    refused: tuple[str, ...]


def file_of(run: Run) -> str:
    """Return the path of a run on the branch, ``runs/2026-01/ID.jsonl``; no id of any content leaves the folder.

    An id that is no plain name is replaced by its digest, behind a dot that no plain name has.
    """
    month = _MONTH.match(run.started_at)
    plain = _PLAIN_ID.fullmatch(run.id)
    digest = hashlib.sha256(run.id.encode("utf-8", "backslashreplace")).hexdigest()[:40]
    return f"{_FOLDER}{month.group() if month else 'undated'}/{run.id if plain else f'id.{digest}'}.jsonl"


def push(store: Store, files: GitFiles, *, pause: Callable[[float], None] = time.sleep) -> int:
    """Add to the branch every run of `store` that is not on it, and return how many there were.

    Raises
    ------
    HistoryError : git refuses, or other jobs were faster every time.
    """
    files.check()
    wanted = {file_of(stored.run): stored.run for stored in store.runs()}
    written: dict[str, str] = {}
    for attempt in range(_ATTEMPTS):
        head = files.fetch()
        there = files.files(head) if head else {}
        missing = {path: run for path, run in wanted.items() if path not in there}
        if not missing:
            return 0
        unwritten = {path: run for path, run in missing.items() if path not in written}
        written |= files.write(_contents(store, unwritten))
        objects = {path: written[path] for path in missing}
        message = f"{len(missing)} runs" if len(missing) > 1 else f"Run {file_of(*missing.values())}"
        if files.push(files.commit(head, objects, message)):
            return len(missing)
        pause(random.uniform(0.0, min(_LONGEST_PAUSE_S, 0.05 * 2**attempt)))  # noqa: S311 - spreads jobs, hides nothing
    raise HistoryError(
        f"the branch {files.branch} was pushed to by others {_ATTEMPTS} times in a row",
        fix="run pytest-quant push again; nothing is lost",
    )


def _contents(store: Store, runs: dict[str, Run]) -> Iterator[tuple[str, bytes]]:
    for path, run in runs.items():
        yield path, header_line() + run_line(run, store.records(run.id))


def pull(store: Store, files: GitFiles) -> Pulled:
    """Add to `store` every run of the branch that it has not; a file that cannot be read keeps no other one out.

    Raises
    ------
    HistoryError : git refuses, the remote has no such branch, or the history cannot be written.
    """
    files.check()
    head = files.fetch()
    if head is None:
        raise HistoryError(
            f"the remote {files.remote} has no branch {files.branch}", fix="run pytest-quant push where a history is"
        )
    here = {file_of(stored.run) for stored in store.runs()}
    there = {path: name for path, name in files.files(head).items() if path.startswith(_FOLDER)}
    refused: list[str] = []
    new = {path: name for path, name in there.items() if path not in here}
    added, known = store.append_many(_readable(files, new, refused))
    return Pulled(added, known + len(there) - len(new), tuple(refused))


def _readable(files: GitFiles, objects: dict[str, str], refused: list[str]) -> Iterator[RunWithRecords]:
    for path, content in files.read(objects):
        try:
            runs = list(read_lines(io.BytesIO(content), path))
        except HistoryError as error:
            refused.append(str(error))
            continue
        yield from runs
