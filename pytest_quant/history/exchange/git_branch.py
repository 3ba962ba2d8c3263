"""A history on a branch of its own in a git remote, for teams without a database: one new file for each run.

Files are never changed, so two jobs that push at once add different ones, and the later builds on top of the
earlier. The branch shares no commit with the code and is never checked out.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_quant.errors import HistoryError
from pytest_quant.history.exchange.stream import MOST_LINE_BYTES, RunWithRecords, header_line, read_lines, run_line
from pytest_quant.record import Run
from pytest_quant.redact import redact_address

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
        kept = f"refs/pytest-quant/{self.branch}"
        self._git("fetch", *options, "--", self.remote, f"+{self._ref}:{kept}")
        return self._git("rev-parse", "--verify", "--end-of-options", kept).decode().strip()

    def files(self, commit: str) -> dict[str, str]:
        """Return the id of each file's object by its path."""
        listed = self._git("ls-tree", "-r", "-z", commit).decode("utf-8", "backslashreplace")
        rows = (row.split("\t", 1) for row in listed.split("\0") if row)
        return {path: fields.split()[2] for fields, path in rows if fields.split()[1] == "blob"}

    def local(self) -> str | None:
        """Return the commit of the branch of that name in the repository at `root`, ``None`` when there is none."""
        found = self._run(("rev-parse", "--verify", "--quiet", "--end-of-options", f"{self._ref}^{{commit}}"))
        return found.stdout.decode().strip() if found.returncode == 0 else None

    def paths(self, commit: str) -> list[str]:
        """Return the path of everything in a commit: files, links and submodules."""
        listed = self._git("ls-tree", "-r", "-z", "--name-only", commit).decode("utf-8", "backslashreplace")
        return [path for path in listed.split("\0") if path]

    def sizes(self, objects: Mapping[str, str]) -> dict[str, int]:
        """Return the bytes of each file in `objects`, by its path, without reading it; 0 for one that is missing."""
        asked = "".join(f"{name}\n" for name in objects.values()).encode()
        told = self._git("cat-file", "--batch-check=%(objectsize)", given=asked).decode().splitlines()
        return {path: int(size) if size.isdigit() else 0 for path, size in zip(objects, told, strict=True)}

    def read(self, objects: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
        """Yield path and content of each file in `objects`, one at a time."""
        if not objects:
            return
        command = ("git", "cat-file", "--batch")
        with subprocess.Popen(  # nosec B603 # noqa: S603 - a fixed command without a shell
            command, cwd=self.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            if process.stdin is None or process.stdout is None:
                raise HistoryError("git cannot be talked to", fix="try again")
            for path, name in objects.items():
                process.stdin.write(f"{name}\n".encode())
                process.stdin.flush()
                head = process.stdout.readline().split()
                if len(head) != 3:
                    raise HistoryError("git cannot read a file of the branch", value=path, fix="run: git fsck")
                yield path, process.stdout.read(int(head[2]) + 1)[:-1]

    def write(self, contents: Iterator[tuple[str, bytes]]) -> dict[str, str]:
        """Add each content to the repository's objects and return their ids by path; no branch contains them yet."""
        paths: list[str] = []
        with tempfile.TemporaryDirectory(prefix="pytest-quant-") as folder:
            drafts = []
            for path, content in contents:
                draft = Path(folder) / str(len(paths))
                draft.write_bytes(content)
                drafts.append(str(draft))
                paths.append(path)
            listed = "".join(f"{draft}\n" for draft in drafts).encode()
            written = self._git("hash-object", "-w", "--no-filters", "--stdin-paths", given=listed)
        return dict(zip(paths, written.decode().split(), strict=True))

    def commit(self, parent: str | None, objects: Mapping[str, str], message: str) -> str:
        """Create a commit that adds files, and return its id.

        Parameters
        ----------
        parent : commit whose files are kept; ``None`` for a first commit.
        objects : ids of the files' objects by path.
        message : of the commit.
        """
        with tempfile.TemporaryDirectory(prefix="pytest-quant-") as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            self._git("read-tree", *((parent,) if parent else ("--empty",)), environ=index)
            rows = "".join(f"100644 blob {name}\t{path}\0" for path, name in objects.items())
            self._git("update-index", "-z", "--index-info", given=rows.encode(), environ=index)
            tree = self._git("write-tree", environ=index).decode().strip()
        known = self._run(("var", "GIT_COMMITTER_IDENT")).returncode == 0
        parents = ("-p", parent) if parent else ()
        made = self._git("commit-tree", tree, *parents, "-m", message, environ={} if known else _NAMED)
        return made.decode().strip()

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
        command = ("git", "-c", "gc.auto=0", *arguments)
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
    written: dict[str, str] = {}
    for attempt in range(_ATTEMPTS):
        head = files.fetch()
        _refuse_others(files, head, "of the remote")
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
        pause(random.uniform(0.0, min(_LONGEST_PAUSE_S, 0.05 * 2**attempt)))  # nosec B311 # noqa: S311 - spreads jobs
    raise HistoryError(
        f"the branch {files.branch} was pushed to by others {_ATTEMPTS} times in a row",
        fix="run pytest-quant push again; nothing is lost",
    )


def _refuse_others(files: GitFiles, commit: str | None, where: str) -> None:
    """Refuse a branch that is there and holds anything but the files of runs; code would get commits of records."""
    others = [] if commit is None else [path for path in files.paths(commit) if not _OURS.fullmatch(path)]
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
            fix="run pytest-quant push where a history is",
        )
    here = {file_of(stored.run) for stored in store.runs()}
    there = {path: name for path, name in files.files(head).items() if path.startswith(_FOLDER)}
    refused: list[str] = []
    new = {path: name for path, name in there.items() if path not in here}
    added, known = store.append_many(_readable(files, new, refused))
    return Pulled(added, known + len(there) - len(new), tuple(refused))


def _readable(files: GitFiles, objects: dict[str, str], refused: list[str]) -> Iterator[RunWithRecords]:
    sizes = files.sizes(objects)
    small = {path: name for path, name in objects.items() if sizes[path] <= MOST_LINE_BYTES}
    refused += [
        f"{path}: too large for a run\n  got: {sizes[path]} bytes\n  allowed: {MOST_LINE_BYTES}"
        for path in sorted(objects.keys() - small.keys())
    ]
    for path, content in files.read(small):
        try:
            runs = list(read_lines(io.BytesIO(content), path))
        except HistoryError as error:
            refused.append(str(error))
            continue
        yield from runs
