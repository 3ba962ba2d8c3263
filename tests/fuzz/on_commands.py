"""Words of the command line, and names of branches and revisions that git may or may not know."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import click
from hypothesis import strategies as st

from pytest_quant.cli import commands
from pytest_quant.environment.revision import (
    Repository,
    ci_branch,
    ci_commit,
    ci_pull_request,
    ci_target,
    git_state,
    parse_status,
)
from pytest_quant.history.baselines.file import NAME
from pytest_quant.history.exchange.git_branch import GitFiles
from tests.fuzz import odd
from tests.fuzz.command import VARIABLES, run_command
from tests.fuzz.hunt import Target
from tests.fuzz.on_files import empty_folder
from tests.recorded_history import RECORDED, unpack_history

_BRANCHES = (
    "main",
    "HEAD",
    "HEAD~1",
    "v1",
    "-",
    "@",
    "@{u}",
    "HEAD^{/x}",
    "refs/heads/main",
    "a..b",
    "a.lock",
    "main:x",
)
_HISTORIES = (
    "history.db",
    "missing.db",
    "notes.txt",
    "sqlite:///history.db",
    "sqlite://",
    "postgresql://user:pa@ss@localhost:1/x",
    "mysql://localhost/x",
    "://",
    "sqlite:///\x00",
)
_FILES = ("runs.jsonl", "notes.txt", "folder", "missing", "-", "\x1b[31m.jsonl", "x" * 300)
_VALUES = (
    "1",
    "0",
    "-1",
    "1.5",
    "nan",
    "2026-01-01",
    "0001-01-01",
    "9999-12-31",
    "engine",
    "ort",
    "2",
    "20261122",
    "test",
)

# A NUL cannot be in an argument, and neither can what no encoding of a file system gives; a path stays in the folder.
_argument = (
    st.one_of(odd.texts, st.sampled_from((*_BRANCHES, *_HISTORIES, *_FILES, *_VALUES)))
    .map(lambda text: text.replace("\0", "").replace("/", "_") if "://" not in text else text.replace("\0", ""))
    .filter(lambda text: _is_argument(text))
)


def _is_argument(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def _options(command: click.Command) -> list[str]:
    return [name for one in command.params if isinstance(one, click.Option) for name in one.opts]


@st.composite
def _words(draw: st.DrawFn) -> list[str]:
    """Draw a command, most often one that exists, with options and arguments in any order."""
    name = draw(st.one_of(st.sampled_from(sorted(set(commands.commands) - {"doctor"})), st.just("doctor"), _argument))
    if name == "doctor":
        # Looking at every backend takes seconds; an unknown name is refused before that.
        return ["doctor", *draw(st.lists(_argument, max_size=1)), "--require", f"nothing,{draw(_argument)}"]
    if name == "profile":
        # A run of pytest takes a second; a number of rows that cannot be is refused before that.
        return ["profile", *draw(st.lists(_argument, max_size=2)), "--top", draw(st.sampled_from(("0", "-1", "nan")))]
    command = commands.commands.get(name)
    known = ["--help", "--version"] if command is None else ["--help", *_options(command)]
    pairs = draw(st.lists(st.one_of(st.sampled_from(known), _argument), max_size=5))
    filled = [word for one in pairs for word in ((one, draw(_argument)) if one.startswith("--") else (one,))]
    if name == "accept" and draw(st.booleans()):
        filled += ["--reason", "why"]
    return [*draw(st.sampled_from(([], [], [], ["--history", "history.db"]))), name, *filled]


def _command(words: list[str]) -> None:
    """Run it in a repository with a history, a file of baselines, and files that are none of ours."""
    with empty_folder() as folder:
        _furnish(folder)
        run_command(words, folder)


def _furnish(folder: Path) -> None:
    for name, content in _files().items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    (folder / "folder").mkdir()


@cache
def _files() -> dict[str, bytes]:
    with empty_folder() as folder:
        history = unpack_history(folder).read_bytes()
        _git(folder, "init", "-q", "-b", "main")
        _git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one")
        git = {
            file.relative_to(folder).as_posix(): file.read_bytes()
            for file in (folder / ".git").rglob("*")
            if file.is_file() and "hooks" not in file.parts
        }
    empty = {f".git/{name}/.keep": b"" for name in ("refs/tags", "objects/info")}
    return {
        "history.db": history,
        ".quant/history.db": history,
        "notes.txt": b"\x1b[31mnotes",
        NAME: (RECORDED / NAME).read_bytes(),
        **git,
        **empty,
    }


def _git(folder: Path, *words: str) -> None:
    command = ("git", *words)
    subprocess.run(command, cwd=folder, env=os.environ | VARIABLES, check=True, capture_output=True)


_STATUS = ("# branch.oid ", "# branch.head ", "# branch.oid (initial)", "1 M. N... ", "? ", "#", "\x1b")
_CI = ("GITHUB_HEAD_REF", "GITHUB_BASE_REF", "GITHUB_SHA", "GITHUB_REF", "CI_COMMIT_SHA", "BUILDKITE_PULL_REQUEST")
_names = st.one_of(odd.texts, st.sampled_from(_BRANCHES))


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a repository or of CI, with names that others chose."""

    what: str
    name: str
    other: str
    lines: list[tuple[str, str]]
    environ: dict[str, str]


def _first_parents(root: Path, asked: Asked) -> None:
    repository = Repository(root)
    repository.parents(asked.name)
    repository.first_parents(asked.name)


def _fetch(root: Path, asked: Asked) -> None:
    files = GitFiles(root, asked.other, asked.name)
    files.check()
    files.local()
    files.fetch()


def _read_ci(root: Path, asked: Asked) -> None:
    for read in (ci_branch, ci_target, ci_commit, ci_pull_request):
        read(asked.environ)
    parse_status("\n".join(head + text for head, text in asked.lines), asked.environ)
    variables = {key: value for key, value in asked.environ.items() if _is_argument(value) and "\0" not in value}
    with patch.dict(os.environ, variables):
        git_state(root)
        Repository(root).target()


_ASKED: dict[str, Callable[[Path, Asked], object]] = {
    "resolve": lambda root, asked: Repository(root).resolve(asked.name),
    "merge base": lambda root, asked: Repository(root).merge_base(asked.name, asked.other),
    "first parents": _first_parents,
    "fetch": _fetch,
    "CI": _read_ci,
}


def _ask(asked: Asked) -> None:
    with patch.dict(os.environ, VARIABLES):
        _ASKED[asked.what](_repository(), asked)


@cache
def _repository() -> Path:
    """Return a repository that every question may be asked of, for none changes it."""
    folder = TemporaryDirectory(prefix="pytest-quant-fuzz-")
    _KEPT.append(folder)
    _furnish(Path(folder.name))
    return Path(folder.name)


_KEPT: list[TemporaryDirectory[str]] = []
"""Folders that are removed when the process ends."""

COMMANDS = Target("commands", _words(), _command, examples=600)
NAMES = Target(
    "names",
    st.builds(
        Asked,
        st.sampled_from(sorted(_ASKED)),
        _names,
        st.one_of(st.just("origin"), _names),
        st.lists(st.tuples(st.sampled_from(_STATUS), _names), max_size=4),
        st.dictionaries(st.sampled_from(_CI), _names, max_size=3),
    ),
    _ask,
    examples=600,
)
