"""A history on a branch of its own in a git remote, for teams without a database: one new file for each run.

Files are never changed, so two jobs that push at once add different ones, and the later builds on top of the
earlier. The branch shares no commit with the code and is never checked out.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_quant.errors import HistoryError
from pytest_quant.history.json_lines import MOST_LINE_BYTES, RunWithRecords, header_line, read_lines, run_line
from pytest_quant.printable import redact_address
from pytest_quant.record import Run

if TYPE_CHECKING:
    from pytest_quant.history.store import Store


_NAMED = {
    "GIT_AUTHOR_NAME": "pytest-quant",
    "GIT_AUTHOR_EMAIL": "pytest-quant@localhost",
    "GIT_COMMITTER_NAME": "pytest-quant",
    "GIT_COMMITTER_EMAIL": "pytest-quant@localhost",
}
"""Identity of the commits on machines without a git identity, such as those of CI."""

_LOST_RACE = ("[rejected]", "cannot lock ref", "failed to lock", "failed to update ref", "reference already exists")
"""Messages of git and its servers when another push was faster; any other failure is not worth another attempt."""

_SETTINGS = ("gc.auto=0", "core.autocrlf=false", "core.symlinks=false", "core.sparseCheckout=false")
_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class GitFiles:
    """A branch of a remote, seen from the repository at `root`: reading and adding files touches no working tree."""

    root: Path
    remote: str
    branch: str

    def check(self) -> None:
        """Raise `HistoryError` when this is no repository, or git does not accept the name of branch or remote."""
        self._git("rev-parse", "--git-dir")
        if self.remote.startswith("-"):
            raise HistoryError(
                "a remote cannot be called that", value=redact_address(self.remote), fix="write --remote origin"
            )
        if self._run(("check-ref-format", self._ref)).returncode != 0:
            raise HistoryError("a branch cannot be called that", value=self.branch, allowed="what git branch takes")

    def fetch(self) -> str | None:
        """Fetch the remote branch and return its commit, ``None`` when the remote has no such branch."""
        there = self._git("ls-remote", "--", self.remote, self._ref).decode("utf-8", "replace")
        if not any(line.endswith(f"\t{self._ref}") for line in there.splitlines()):
            return None
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance")
        reference = f"refs/pytest-quant/{self.branch}"
        self._git("fetch", *options, "--", self.remote, f"+{self._ref}:{reference}")
        return self._git("rev-parse", "--verify", "--end-of-options", reference).decode().strip()

    def files(self, commit: str | None) -> dict[str, int]:
        """Return the bytes of everything in a commit, by its path; -1 for what is no file. Nothing without a commit."""
        if commit is None:
            return {}
        listed = self._git("ls-tree", "-r", "-z", "--long", commit).decode("utf-8", "surrogateescape")
        rows = (row.split("\t", 1) for row in listed.split("\0") if row)
        sizes = ((path, fields.split()[3]) for fields, path in rows)
        return {path: int(size) if size.isdigit() else -1 for path, size in sizes}

    def local(self) -> str | None:
        """Return the commit of the branch of that name in the repository at `root`, ``None`` when there is none."""
        tip = self._run(("rev-parse", "--verify", "--quiet", "--end-of-options", f"{self._ref}^{{commit}}"))
        return tip.stdout.decode().strip() if tip.returncode == 0 else None

    @contextmanager
    def checked_out(self, commit: str, paths: Collection[str]) -> Iterator[Path]:
        """Write some files of a commit into a temporary folder, a link as the name that it has."""
        with self._index(commit) as (folder, environ):
            self._git(
                "checkout-index",
                "-z",
                "--stdin",
                given="\0".join(paths).encode("utf-8", "surrogateescape"),
                environ=environ,
            )
            yield folder

    def commit(self, parent: str | None, contents: Iterable[tuple[str, bytes]], message: str) -> str:
        """Create a commit that adds files, and return its id; no branch contains it yet.

        Parameters
        ----------
        parent : commit whose files are kept; ``None`` for a first commit.
        contents : path and content of each file.
        message : of the commit.
        """
        with self._index(parent) as (folder, environ):
            for path, content in contents:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(content)
            self._git("add", "--force", "--ignore-removal", "--", _FOLDER, environ=environ)
            tree = self._git("write-tree", environ=environ).decode().strip()
        has_name = self._run(("var", "GIT_COMMITTER_IDENT")).returncode == 0
        parents = ("-p", parent) if parent else ()
        commit = self._git("commit-tree", tree, *parents, "-m", message, environ={} if has_name else _NAMED)
        return commit.decode().strip()

    @contextmanager
    def _index(self, commit: str | None) -> Iterator[tuple[Path, Mapping[str, str]]]:
        """Make an empty folder, and the variables with which git takes it for the working tree of a commit.

        The repository is this one, so that the remote is asked with the settings that the user or CI gave it.
        """
        git_dir = self._git("rev-parse", "--absolute-git-dir").decode().rstrip("\n")
        with tempfile.TemporaryDirectory(prefix="pytest-quant-") as place:
            folder = Path(place) / "tree"
            folder.mkdir()
            environ = {"GIT_DIR": git_dir, "GIT_WORK_TREE": str(folder), "GIT_INDEX_FILE": f"{place}/index"}
            self._git("read-tree", commit or "--empty", environ=environ)
            yield folder, environ

    def push(self, commit: str) -> bool:
        """Advance the remote branch to `commit`; ``False`` when another push came first."""
        # Hooks of the user check code, which this is not, and often run the tests that wrote these records.
        options = ("--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no")
        done = self._run(("push", *options, "--", self.remote, f"{commit}:{self._ref}"))
        if done.returncode == 0:
            return True
        output = (done.stdout + done.stderr).decode("utf-8", "replace")
        if any(word in output for word in _LOST_RACE):
            return False
        raise _failed("push", output, self.remote)

    @property
    def _ref(self) -> str:
        return f"refs/heads/{self.branch}"

    def _git(self, *arguments: str, given: bytes = b"", environ: Mapping[str, str] | None = None) -> bytes:
        done = self._run(arguments, given, environ)
        if done.returncode != 0:
            raise _failed(arguments[0], done.stderr.decode("utf-8", "replace"), self.remote)
        return done.stdout

    def _run(
        self, arguments: Sequence[str], given: bytes = b"", environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        variables = os.environ | {"LC_ALL": "C"} | dict(environ or {})
        command = ("git", *(word for setting in _SETTINGS for word in ("-c", setting)), *arguments)
        try:
            return subprocess.run(  # nosec B603 # noqa: S603 - no shell, and every name stands where git reads no option
                command, cwd=self.root, input=given, capture_output=True, timeout=_TIMEOUT_S, env=variables, check=False
            )
        except ValueError as error:
            # A name with a NUL, or one that no file system has.
            raise _failed(arguments[0], f"a name cannot be handed to git: {error}", self.remote) from error
        except FileNotFoundError as error:
            raise HistoryError("git is not installed", fix="install git, or move the history by export") from error
        except subprocess.TimeoutExpired as error:
            raise _failed(arguments[0], f"no answer within {_TIMEOUT_S:.0f} s", self.remote) from error


def _failed(action: str, output: str, remote: str) -> HistoryError:
    # The error removes the secrets of every address in the output, but cannot tell where one with blanks in it ends.
    shown = output.strip().replace(remote, redact_address(remote))
    return HistoryError(f"git {action} failed", value=shown, fix="make the git command work by itself, and try again")


BRANCH = "pytest-quant-history"

_FOLDER = "runs/"
_ATTEMPTS = 30
_LONGEST_PAUSE_S = 2.0
_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_MONTH = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])(?=-)")
_OURS = re.compile(
    rf"{_FOLDER}(?:[0-9]{{4}}-(?:0[1-9]|1[0-2])|undated)/(?:{_PLAIN_ID.pattern}|id\.[0-9a-f]{{40}})\.jsonl"
)
"""Every path that `file_of` returns."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """The result of `pull`: numbers of added and of known runs, and a message for each file that was refused."""

    added: int
    known: int
    refused: tuple[str, ...]


def file_of(run: Run) -> str:
    """Return the path of a run on the branch, ``runs/2026-01/ID.jsonl``, which is inside the folder for any id.

    An id that is no plain name is replaced by its digest after a dot, which no plain name contains.
    """
    month = _MONTH.match(run.started_at)
    plain = _PLAIN_ID.fullmatch(run.id)
    digest = hashlib.sha256(run.id.encode("utf-8", "backslashreplace")).hexdigest()[:40]
    return f"{_FOLDER}{month.group() if month else 'undated'}/{run.id if plain else f'id.{digest}'}.jsonl"


def push(store: Store, files: GitFiles, *, pause: Callable[[float], None] = time.sleep) -> int:
    """Add to the branch every run that is not on it, and return their number.

    Parameters
    ----------
    store : the history.
    files : the branch.
    pause : sleeps for some seconds before another attempt.

    Raises
    ------
    HistoryError : the branch, there or here, holds anything but runs; git fails; or other jobs were faster every time.
    """
    files.check()
    _refuse_others(files, files.local(), "in this repository")
    wanted = {file_of(stored.run): stored.run for stored in store.runs()}
    for attempt in range(_ATTEMPTS):
        head = files.fetch()
        _refuse_others(files, head, "of the remote")
        missing = wanted.keys() - files.files(head).keys()
        if not missing:
            return 0
        message = f"{len(missing)} runs" if len(missing) > 1 else f"Run {next(iter(missing))}"
        runs = {path: wanted[path] for path in sorted(missing)}
        if files.push(files.commit(head, _contents(store, runs), message)):
            return len(missing)
        pause(random.uniform(0.0, min(_LONGEST_PAUSE_S, 0.05 * 2**attempt)))  # nosec B311 # noqa: S311 - spreads jobs
    raise HistoryError(
        f"the branch {files.branch} was pushed to by others {_ATTEMPTS} times in a row",
        fix="run pytest-quant history push again; nothing is lost",
    )


def _refuse_others(files: GitFiles, commit: str | None, where: str) -> None:
    """Refuse a branch that is there and holds anything but the files of runs; code would get commits of records."""
    others = [path for path in files.files(commit) if not _OURS.fullmatch(path)]
    if others:
        raise HistoryError(
            f"the branch {files.branch} {where} is no branch of a history: it holds other files",
            value=", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else ""),
            allowed="a branch that is new, or holds nothing but runs",
            fix=f"name one that is used for nothing else: --branch {BRANCH}",
        )


def _contents(store: Store, runs: dict[str, Run]) -> Iterator[tuple[str, bytes]]:
    for path, run in runs.items():
        yield path, header_line() + run_line(run, store.records(run.id))


def pull(store: Store, files: GitFiles) -> Pulled:
    """Add to `store` every run of the branch that it does not have; files that cannot be read are skipped and named.

    Raises
    ------
    HistoryError : git fails, the remote has no such branch, or the history cannot be written.
    """
    files.check()
    head = files.fetch()
    if head is None:
        raise HistoryError(
            f"the remote {redact_address(files.remote)} has no branch {files.branch}",
            fix="run pytest-quant history push where a history is",
        )
    here = {file_of(stored.run) for stored in store.runs()}
    there = {path: size for path, size in files.files(head).items() if size >= 0 and path.startswith(_FOLDER)}
    new = sorted(there.keys() - here)
    small = [path for path in new if there[path] <= MOST_LINE_BYTES]
    refused = [
        f"{path}: too large for a run\n  got: {there[path]} bytes\n  allowed: {MOST_LINE_BYTES}"
        for path in new
        if path not in small
    ]
    with files.checked_out(head, small) as folder:
        added, repeated = store.append_many(_readable(folder, small, refused))
    return Pulled(added, repeated + len(there) - len(new), tuple(refused))


def _readable(folder: Path, paths: Iterable[str], refused: list[str]) -> Iterator[RunWithRecords]:
    for path in paths:
        try:
            with (folder / path).open("rb") as stream:
                runs = list(read_lines(stream, path))
        except HistoryError as error:
            refused.append(str(error))
            continue
        yield from runs
