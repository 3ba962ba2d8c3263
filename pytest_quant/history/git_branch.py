"""A history on a branch of its own in a git remote, for teams without a database: one new file for each run.

Files are never changed, so two jobs that push at once add different ones, and the later builds on top of the
earlier. The branch shares no commit with the code. It is written to in a temporary worktree, so that the remote is
asked with the settings that the user or CI gave this repository, whose own files stay as they are.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_quant.environment.revision import GitAnswer, ask_git
from pytest_quant.environment.worktree import LOCAL_VARIABLES, workplace
from pytest_quant.errors import HistoryError
from pytest_quant.history.json_lines import RunWithRecords, lines_of, read_runs
from pytest_quant.printable import redact_address
from pytest_quant.record import Run

if TYPE_CHECKING:
    from pytest_quant.history.store import Store

BRANCH = "pytest-quant-history"

_FOLDER = "runs/"
_ATTEMPTS = 30
_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])(?=-)")
_OURS = re.compile(
    rf"{_FOLDER}(?:[0-9]{{4}}-(?:0[1-9]|1[0-2])|undated)/(?:{_PLAIN_ID.pattern}|id\.[0-9a-f]{{40}})\.jsonl"
)
"""Every path that `file_of` returns."""

_LOST_RACE = ("[rejected]", "cannot lock ref", "failed to lock", "failed to update ref", "reference already exists")
"""Messages of git and its servers when another push was faster; any other failure is not worth another attempt."""

# Hooks of the user check code, which this is not, and often run the tests that wrote these records. Machines of CI have
# no identity for commits.
_SETTINGS = (
    *("gc.auto=0", "core.autocrlf=false", "core.symlinks=false", "core.sparseCheckout=false", "commit.gpgSign=false"),
    *(f"core.hooksPath={os.devnull}", "user.name=pytest-quant", "user.email=pytest-quant@localhost"),
)


@dataclass(frozen=True, slots=True)
class GitBranch:
    """A branch of a remote of the repository at `root`."""

    root: Path
    remote: str
    branch: str

    @property
    def ref(self) -> str:
        """The full name of the branch."""
        return f"refs/heads/{self.branch}"

    def check(self) -> None:
        """Raise `HistoryError` when this is no repository, or git does not accept the name of the branch."""
        self.git("rev-parse", "--git-dir")
        if not self.ask("check-ref-format", self.ref).ok:
            raise HistoryError("a branch cannot be called that", value=self.branch, allowed="what git branch takes")

    def fetch(self, attempts: int = _ATTEMPTS) -> str | None:
        """Fetch the remote branch and return its commit, ``None`` when the remote has no such branch."""
        if not self.git("ls-remote", "--", self.remote, self.ref):
            return None
        # Without its map of refs, by which git would move the user's own one of this branch too.
        options = ("--quiet", "--no-tags", "--refmap=", "--no-write-fetch-head", "--no-recurse-submodules")
        fetched = f"refs/pytest-quant/{self.branch}"
        answer = self.ask("fetch", *options, "--no-auto-maintenance", "--", self.remote, f"+{self.ref}:{fetched}")
        if answer.ok:
            return self.git("rev-parse", "--verify", "--end-of-options", fetched)
        # Another process of this repository may fetch, or make or remove its worktree, at this moment.
        if not attempts or not any(word in answer.error for word in (*_LOST_RACE, "bad object worktrees/")):
            raise _git_error("fetch", answer.error, self.remote)
        time.sleep(0.1)
        return self.fetch(attempts - 1)

    def files(self, commit: str) -> set[str]:
        """Return the paths of everything in a commit."""
        return {path for path in self.git("ls-tree", "-r", "-z", "--name-only", commit).split("\0") if path}

    @contextmanager
    def worktree(self, commit: str | None) -> Iterator[Path]:
        """Make a temporary worktree of a commit, an empty one by default; no file is written, for there are many."""
        if commit is None:
            empty = self.git("hash-object", "-w", "-t", "tree", os.devnull)
            commit = self.git("commit-tree", empty, "-m", "A history of pytest-quant")
        with workplace(self.root) as place:
            folder = place / "history"
            self.git("worktree", "add", "--quiet", "--detach", "--no-checkout", str(folder), commit)
            self.git("read-tree", "HEAD", at=folder)
            yield folder

    def git(self, *arguments: str, at: Path | None = None) -> str:
        """Return what git prints in a folder, by default the folder of the repository. Raises `HistoryError`."""
        answer = self.ask(*arguments, at=at)
        if not answer.ok:
            raise _git_error(arguments[0], answer.error, self.remote)
        return answer.text

    def ask(self, *arguments: str, at: Path | None = None) -> GitAnswer:
        """Run git in a folder, by default the folder of the repository."""
        settings = (word for setting in _SETTINGS for word in ("-c", setting))
        return ask_git(at or self.root, *settings, *arguments, timeout_s=600.0, without=LOCAL_VARIABLES)


def _git_error(action: str, output: str, remote: str) -> HistoryError:
    # The error removes the secrets of every address in the output, but cannot tell where one with blanks in it ends.
    shown = output.replace(remote, redact_address(remote))
    return HistoryError(f"git {action} failed", value=shown, fix="make the git command work by itself, and try again")


def file_of(run: Run) -> str:
    """Return the path of a run on the branch, ``runs/2026-01/ID.jsonl``, which is inside the folder for any id.

    An id that is no plain name is replaced by its digest after a dot, which no plain name contains.
    """
    month = _MONTH.match(run.started_at)
    plain = _PLAIN_ID.fullmatch(run.id)
    digest = hashlib.sha256(run.id.encode("utf-8", "backslashreplace")).hexdigest()[:40]
    return f"{_FOLDER}{month.group() if month else 'undated'}/{run.id if plain else f'id.{digest}'}.jsonl"


def push(store: Store, branch: GitBranch, *, pause: Callable[[float], None] = time.sleep) -> int:
    """Add to the branch every run that is not on it, and return their number.

    Parameters
    ----------
    store : the history.
    branch : of the remote.
    pause : sleeps for some seconds before another attempt.

    Raises
    ------
    HistoryError : the branch, there or here, holds anything but runs; git fails; or other jobs were faster every time.
    """
    branch.check()
    local = branch.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{branch.ref}^{{commit}}")
    _refuse_others(branch, local.text if local.ok else None, "in this repository")
    wanted = {file_of(stored.run): stored.run for stored in store.runs()}
    for attempt in range(_ATTEMPTS):
        head = branch.fetch()
        missing = sorted(wanted.keys() - _refuse_others(branch, head, "of the remote"))
        if not missing:
            return 0
        with branch.worktree(head) as folder:
            for path in missing:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                lines = lines_of([(wanted[path], store.records(wanted[path].id))])
                (folder / path).write_bytes(b"".join(lines))
            branch.git("add", "--force", "--ignore-removal", "--", _FOLDER, at=folder)
            message = f"{len(missing)} runs" if len(missing) > 1 else f"Run {missing[0]}"
            branch.git("commit", "--quiet", "-m", message, at=folder)
            options = ("--porcelain", "--no-follow-tags", "--recurse-submodules=no")
            new = branch.git("rev-parse", "HEAD", at=folder)
            answer = branch.ask("push", *options, "--", branch.remote, f"{new}:{branch.ref}")
        if answer.ok:
            return len(missing)
        if not any(word in answer.text + answer.error for word in _LOST_RACE):
            raise _git_error("push", f"{answer.text}\n{answer.error}", branch.remote)
        pause(random.uniform(0.0, min(2.0, 0.05 * 2**attempt)))  # nosec B311 # noqa: S311 - spreads jobs
    fix = "run pytest-quant history push again; nothing is lost"
    raise HistoryError(f"the branch {branch.branch} was pushed to by others {_ATTEMPTS} times in a row", fix=fix)


def _refuse_others(branch: GitBranch, commit: str | None, where: str) -> set[str]:
    """Return the files of a commit, all of runs. Refuse any others: code would get commits of records."""
    files = set() if commit is None else branch.files(commit)
    others = sorted(path for path in files if not _OURS.fullmatch(path))
    if others:
        raise HistoryError(
            f"the branch {branch.branch} {where} is no branch of a history: it holds other files",
            value=", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else ""),
            allowed="a branch that is new, or holds nothing but runs",
            fix=f"name a branch that is used for nothing else: --branch {BRANCH}",
        )
    return files


def pull(store: Store, branch: GitBranch) -> tuple[int, int, list[str]]:
    """Add to `store` every run of the branch that it does not have.

    Returns
    -------
    The numbers of added and of known runs, and a message for each file that cannot be read and was skipped.

    Raises
    ------
    HistoryError : git fails, the remote has no such branch, or the history cannot be written.
    """
    branch.check()
    head = branch.fetch()
    if head is None:
        fix = "run pytest-quant history push where a history is"
        raise HistoryError(f"the remote {redact_address(branch.remote)} has no branch {branch.branch}", fix=fix)
    here = {file_of(stored.run) for stored in store.runs()}
    there = {path for path in branch.files(head) if _OURS.fullmatch(path)}
    new = sorted(there - here)
    refused: list[str] = []
    with branch.worktree(head) as folder:
        if new:
            names = folder.with_name("new")
            names.write_text("\n".join(new), "utf-8")
            branch.git("checkout", "HEAD", f"--pathspec-from-file={names}", at=folder)
        added, repeated = store.append_many(_readable(folder, new, refused))
    return added, repeated + len(there & here), refused


def _readable(folder: Path, paths: Iterable[str], refused: list[str]) -> Iterator[RunWithRecords]:
    for path in paths:
        try:
            yield from list(read_runs(folder / path, path))
        except HistoryError as error:
            refused.append(str(error))
