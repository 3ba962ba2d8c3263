"""Words of the command line, names of branches and revisions that git may or may not know among them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from unittest.mock import patch

import click
from hypothesis import strategies as st

from pytest_quant.history.baselines.file import NAME
from tests.nightly.fuzz import odd
from tests.nightly.fuzz.models import CORPUS
from tests.nightly.fuzz.on_files import VARIABLES, empty_folder, run_command
from tests.nightly.fuzz.target import Target
from tests.recorded_history import RECORDED, import_history
from tests.support.commands import all_commands
from tests.support.forge_server import serving

_BRANCHES = ("main", "HEAD", "HEAD~1", "v1", "-", "@{u}", "HEAD^{/x}", "a..b", "a.lock", "main:x")
_HISTORIES = ("history.db", "missing.db", "sqlite://", "postgresql://user:pa@ss@localhost:1/x", "://", "sqlite:///\x00")
_FILES = ("runs.jsonl", "model.onnx", "notes.txt", "folder", "missing", "-", "\x1b[31m.jsonl", "x" * 300)
_COMMENT = "comment.md"
_LIKELY = {
    "file": (_COMMENT, *_FILES),
    "model": ("model.onnx", "main:x", "missing"),
    "place": ("history.db", *_HISTORIES),
    "topic": ("ci", "noise", "nois"),
}
"""By the name of a parameter of a command."""

_VALUES = ("1", "0", "-1", "nan", "2026-01-01", "0001-01-01", "engine", "ort", "20261122", "test")

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


_COMMANDS = all_commands()
_NAMES = (*_COMMANDS, *_COMMANDS, "")
_TOO_LONG = {"doctor": ("--require", "nothing"), "profile": ("--top", "0"), "selftest": ("--backend", "nothing")}
"""Commands that take seconds or minutes, with what is refused before they begin."""

_GOOD = {
    "comment": (
        ("--github", "--repository", "me/models", "--number", "12"),
        ("--gitlab", "--repository", "5", "--number", "11"),
    ),
    "init": (("--github",), ("--gitlab", "--gpu")),
}
"""Options with which a command gets far; what is drawn comes after them, and counts in their place."""


@st.composite
def _words(draw: st.DrawFn) -> list[str]:
    """Draw a command, most often one that exists, with options and arguments in any order."""
    name = draw(st.sampled_from(_NAMES)) or draw(_argument)
    command = _COMMANDS.get(name)
    params = [] if command is None else command.params
    options = [param for param in params if isinstance(param, click.Option)]
    good = draw(st.sampled_from(((), *_GOOD.get(name, ()))))
    drawn = draw(st.lists(st.sampled_from(options), max_size=4)) if options else []
    needed = [option for option in options if option.required and option not in drawn] if draw(st.booleans()) else []
    words = [*good, *(word for one in (*drawn, *needed) for word in _option(draw, one))]
    words += [word for one in params if isinstance(one, click.Argument) for word in _values(draw, one)]
    words += draw(st.sampled_from(([], [], [], ["--help"], [draw(_argument)])))
    words += _TOO_LONG.get(name, ())
    return [
        *draw(st.sampled_from(([], [], [], ["--history", "history.db"]))),
        *(name.split() if command else (name,)),
        *words,
    ]


def _option(draw: st.DrawFn, option: click.Option) -> tuple[str, ...]:
    name = draw(st.sampled_from((*option.opts, *option.secondary_opts)))
    return (name,) if option.is_flag else (name, draw(_value(option)))


def _values(draw: st.DrawFn, argument: click.Argument) -> list[str]:
    fewest, most = (0, 2) if argument.nargs < 0 else (int(argument.required), argument.nargs)
    return draw(st.lists(_value(argument), min_size=fewest, max_size=most))


def _value(parameter: click.Parameter) -> st.SearchStrategy[str]:
    """Draw a value, most often one that this parameter may have."""
    likely = _LIKELY.get(parameter.name or "", (*_BRANCHES, *_HISTORIES, *_FILES, *_VALUES))
    if isinstance(parameter.type, click.Choice):
        likely = tuple(map(str, parameter.type.choices))
    usable = [text.replace("\0", "") for text in likely]
    return st.sampled_from((True, True, False)).flatmap(lambda may: st.sampled_from(usable) if may else _argument)


def _command(words: list[str]) -> None:
    """Run it in a repository with a history, a model, a file of baselines, and files that are none of ours."""
    with empty_folder() as folder, _own_forge() if "comment" in words else nullcontext():
        _furnish(folder)
        run_command(words, folder)


@contextmanager
def _own_forge() -> Iterator[None]:
    """Let only a forge of this machine see comments, whatever token and address CI has set."""
    with serving() as forge:
        at = {"GITHUB_API_URL": forge.address, "CI_API_V4_URL": f"{forge.address}/api/v4", "no_proxy": "*"}
        with patch.dict(os.environ, {"GITHUB_TOKEN": "planted", "GITLAB_TOKEN": "planted", **at}):
            yield


def _furnish(folder: Path) -> None:
    for name, content in _files().items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    (folder / "folder").mkdir()


@cache
def _files() -> dict[str, bytes]:
    with empty_folder() as folder:
        history = import_history(folder).read_bytes()
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
        "model.onnx": (CORPUS / "conv.onnx").read_bytes(),
        _COMMENT: b"<!-- pytest-quant run -->\n\x1b[31mFAIL",
        NAME: (RECORDED / NAME).read_bytes(),
        **git,
        **empty,
    }


def _git(folder: Path, *words: str) -> None:
    command = ("git", *words)
    subprocess.run(command, cwd=folder, env=os.environ | VARIABLES, check=True, capture_output=True)


COMMANDS = Target(_words(), _command, examples=600)
