"""Files that others wrote, and the commands that read them: runs to import, and accepted baselines."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

from pytest_quant.cli import main
from pytest_quant.history.baselines.file import NAME, baseline_text, parse_baselines, read_baselines
from tests.nightly.fuzz import odd
from tests.nightly.fuzz.target import Target, check_message
from tests.recorded_history import RECORDED, recorded_documents

_CHECKS = 3
_CODES = (0, 1, 2, 3, 4)
VARIABLES = {
    "GIT_CEILING_DIRECTORIES": "/",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_SSH_COMMAND": "false",
    "GIT_ALLOW_PROTOCOL": "file",
    "GIT_TERMINAL_PROMPT": "0",
}
"""Nobody but this machine is asked, and no setting of its user counts."""


def run_command(words: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run ``pytest-quant`` in `folder` and return its exit code and all that it printed.

    Raises
    ------
    AssertionError : it ended with a code that it does not have, or printed what a terminal acts upon.
    Exception : what came out of it.
    """
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with (
        chdir(folder),
        patch.dict(os.environ, VARIABLES),
        patch.object(sys, "argv", ["pytest-quant", *words]),
        redirect_stdout(out),
        redirect_stderr(out),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    out.seek(0)
    text = out.read()
    if code not in _CODES:
        raise AssertionError(f"pytest-quant ended with {code!r}: {text}")
    check_message(text)
    return int(code), text


@contextmanager
def empty_folder() -> Iterator[Path]:
    """Give a folder that is gone afterwards."""
    with TemporaryDirectory(prefix="pytest-quant-fuzz-") as folder:
        yield Path(folder)


def _runs() -> list[Any]:
    """Return runs of ours with few checks, one that could not run among them."""
    ours = recorded_documents()
    for document in ours:
        bad = [check for check in document["checks"] if check["accuracy"] is None]
        document["checks"] = document["checks"][: _CHECKS - 1] + bad[:1]
    return ours


def _lines(documents: list[Any]) -> bytes:
    """Return documents as lines; JSON that Python writes may hold what is none, as others do."""
    return "".join(json.dumps(document) + "\n" for document in documents).encode("utf-8", "surrogatepass")


_HEADER: dict[str, Any] = {"format": "pytest-quant-history", "schema": 1}
_files_of_runs = st.one_of(
    odd.endless,
    odd.damaged([_lines([_HEADER, run]) for run in _runs()]),
    st.lists(odd.changed_json([_HEADER, *_runs(), *_runs()]), min_size=1, max_size=3).map(_lines),
    st.lists(odd.changed_json(_runs()), min_size=1, max_size=2).map(_lines),
)

_SHOWN = (
    ("history",),
    ("history", "--series"),
    ("history", "changes"),
    ("compare", "2", "2", "--markdown"),
    ("compare", "2", "1"),
    ("accept", "2", "--reason", "why", "--dry-run"),
    ("history", "prune", "--keep-runs", "0"),
    ("history", "export"),
    ("history", "2", "--json"),
)


def _import(content: bytes) -> None:
    """Import a file, and let every command read what came of it."""
    with empty_folder() as folder:
        (folder / ".quant").mkdir()
        (folder / ".quant" / "history.db").write_bytes(_empty_history())
        (folder / "runs.jsonl").write_bytes(content)
        code, _ = run_command(["history", "import", "runs.jsonl"], folder)
        if code == 0:
            for words in _SHOWN:
                run_command(words, folder)


@cache
def _empty_history() -> bytes:
    with empty_folder() as folder:
        (folder / "runs.jsonl").write_bytes(_lines([_HEADER]))
        run_command(["history", "import", "runs.jsonl", "--history", "history.db"], folder)
        return (folder / "history.db").read_bytes()


def _read_baselines(content: bytes) -> None:
    """Read a file of baselines; what is read can be written, and reads the same again."""
    with empty_folder() as folder:
        file = folder / NAME
        file.write_bytes(content)
        entries = read_baselines(file)
        again = parse_baselines(baseline_text(entries.values()))
        if again.keys() != entries.keys():
            raise AssertionError(f"written and read again: {sorted(again)} in place of {sorted(entries)}")


_BASELINES = (RECORDED / NAME).read_bytes()


@st.composite
def _edited_baselines(draw: st.DrawFn) -> bytes:
    """Draw the recorded file with a value of a line, or the line, replaced."""
    lines = _BASELINES.decode().splitlines()
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        name = lines[at].partition(" = ")[0]
        value = draw(st.one_of(_toml_values, odd.texts))
        lines[at] = draw(st.sampled_from((f"{name} = {value}", value, "", f"{lines[at]}\n{lines[at]}")))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


_toml_values = st.one_of(
    odd.texts.map(json.dumps),
    odd.numbers.map(str),
    st.sampled_from(
        ("true", "[]", "{}", "[[1]]", "1e400", "0xFFFFFFFFFFFFFFFFFFFF", "00:00:00", "1" * 5000, "[" * 2000)
    ),
    st.sampled_from(("0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "2026-02-30", "0001-01-01T00:00:00+23:59")),
)


RUNS = Target(_files_of_runs, _import, examples=600)
BASELINES = Target(
    st.one_of(_edited_baselines(), odd.damaged([_BASELINES]), odd.endless), _read_baselines, examples=2000
)
