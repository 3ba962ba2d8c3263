"""The project that a guide describes: its blocks as files, what they name, and its commands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.documents import GUIDES, Document
from tests.support.example import ROOT, environment
from tests.support.guide_files import write_files
from tests.support.repository import make_repository

FIRST = Document(GUIDES / "first-check.md")
"""The guide whose conftest and first test serve those that write none of their own."""

_OURS = "import sys; from pytest_quant.cli import main; main()"
_TIMEOUT_S = 900
_MARK = "\x1e"


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a guide, and the lines that it is shown to print, if any."""

    words: str
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """A command that ran: its exit code and all that it printed."""

    command: Command
    code: int
    output: str


def write_project(folder: Path, document: Document) -> list[str]:
    """Write the Python blocks of a document as files beside what they name, and return the names of their tests.

    A document whose commands write a first test themselves begins without any.
    """
    blocks = [block for block in document.blocks("python") if block.file_name]
    names = {block.file_name for block in blocks}
    spare = [block for block in FIRST.blocks("python") if block.file_name in ("conftest.py", "test_digits.py")]
    for block in () if "$ pytest-quant init" in document.text else spare:
        if block.file_name not in names and (block.file_name == "conftest.py" or not blocks):
            (folder / block.file_name).write_text(block.text, "utf-8")
    for block in blocks:
        (folder / block.file_name).write_text(block.text, "utf-8")
    write_files(folder, document.text)
    return [name for block in blocks for name in re.findall(r"def (test_\w+)", block.text)]


def run_tests(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a project; its timings are short, because nothing here is about them."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--quant-max-time=1", "-rA", *options]
    return subprocess.run(command, cwd=project, env=environment(), capture_output=True, text=True, check=False)


def commands_of(text: str, language: str) -> list[Command]:
    """Return the commands of a block: the lines of ``sh``, and what stands behind a dollar in ``console``."""
    lines = text.splitlines()
    if language == "sh":
        return [Command(line) for line in lines if line.strip()]
    result: list[Command] = []
    for line in lines:
        if line.startswith("$ "):
            result.append(Command(line[2:]))
        elif result:
            result[-1] = Command(result[-1].words, (*result[-1].shown, line))
    return result


def make_repository_of(project: Path) -> None:
    """Commit the project to the branch ``main`` of a new repository with a remote, and make a branch ``topic``."""
    repository = make_repository(project)
    for name, value in (("user.name", "t"), ("user.email", "t@example.org"), ("commit.gpgsign", "false")):
        repository.git("config", name, value)
    repository.git("add", "-A")
    repository.git("commit", "-m", "The project of a guide")
    remote = project.with_name(f"{project.name}-origin.git")
    repository.git("init", "-q", "--bare", str(remote))
    repository.git("remote", "add", "origin", str(remote))
    repository.git("push", "-q", "origin", "main")
    repository.git("switch", "-q", "-c", "topic")
    (project / "notes.txt").write_text("Pictures are resized once.\n", "utf-8")
    repository.git("add", "-A")
    repository.git("commit", "-m", "Faster preprocessing")
    repository.git("switch", "-q", "main")


def run_commands(
    project: Path, commands: Sequence[Command], addopts: str, instead: Mapping[str, str] | None = None
) -> list[Done]:
    """Run commands one after the other in one shell, so that variables and branches last.

    Parameters
    ----------
    project : the working directory.
    commands : all are run, also after one that fails.
    addopts : options of every pytest among them.
    instead : texts that stand for something that only this machine knows, an address for example.
    """
    python = shlex.quote(sys.executable)
    lines = [
        f'python() {{ {python} "$@"; }}',
        f'pytest() {{ {python} -m pytest "$@"; }}',
        f'pytest-quant() {{ {python} -c {shlex.quote(_OURS)} "$@"; }}',
        f'lm_eval() {{ PYTHONPATH={shlex.quote(str(ROOT))} {python} -m tests.support.harness "$@"; }}',
    ]
    for command in commands:
        words = command.words
        for text, real in (instead or {}).items():
            words = words.replace(text, real)
        lines += [words, f"printf '{_MARK}%d{_MARK}' $?"]
    variables = environment()
    variables["PYTEST_ADDOPTS"] += f" -p no:cacheprovider {addopts}"
    variables |= {"COLUMNS": "120", "GIT_CONFIG_GLOBAL": os.devnull}
    ran = subprocess.run(
        ["/usr/bin/env", "bash", "-c", "\n".join(lines)],
        cwd=project,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )
    parts = ran.stdout.split(_MARK)
    assert len(parts) == 2 * len(commands) + 1, ran.stdout
    return [
        Done(command, int(code), output)
        for command, output, code in zip(commands, parts[::2], parts[1::2], strict=False)
    ]


def not_printed(done: Done) -> list[str]:
    """Return the lines that a guide shows and the command did not print, whatever the figures in them.

    Numbers, commits, ids, what is left of a shortened name, and the lengths of rules may be others; a line of three
    dots stands for lines left out.
    """
    printed = {_form(line) for line in done.output.splitlines()}
    return [line for line in done.command.shown if line.strip() not in ("", "...") and _form(line) not in printed]


def _form(line: str) -> str:
    line = re.sub(r"\b\d{8}T\d{6}Z-[0-9a-f]+\b|\b[0-9a-f]{7,64}\b", "#", line)
    line = re.sub(r"\S*\.\.\.\S*", "...", line)
    line = re.sub(r"[-+]?\d+(?:[.,:]\d+)*", "#", line)
    return " ".join(re.sub(r"([-=])\1{3,}", r"\1", line).split())
