"""What the guides show runs: their Python is a project whose tests pass, their commands print what is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.test_guide_blocks import WRITTEN
from tests.support.documents import Document
from tests.support.example import copy_example
from tests.support.guide_project import (
    commands_of,
    make_repository_of,
    not_printed,
    run_commands,
    run_tests,
    write_project,
)
from tests.support.postgres import PostgresServer
from tests.support.repository import without_ci

ADDRESS = "postgresql+psycopg://ci@db.example.org/quant"
_ON_SPEED = ("min_speedup", "max_latency_ms", "max_slowdown", "--quant-launches")


def guides_with(*languages: str) -> list[object]:
    """Return the guides that have blocks in these languages, as parameters of a test."""
    return [pytest.param(guide, id=guide.file.stem) for guide in WRITTEN if guide.blocks(*languages)]


def addopts_of(guide: Document) -> str:
    """Leave latency out where a guide is not about it."""
    return "--quant-max-time=1" if any(name in guide.text for name in _ON_SPEED) else "--quant-no-latency"


@pytest.mark.parametrize("guide", guides_with("python"))
def test_python_blocks_are_a_project_whose_tests_pass(guide: Document, tmp_path: Path) -> None:
    """Each test of each block passes, or fails as its mark expects."""
    tests = write_project(tmp_path, guide)
    result = run_tests(tmp_path, addopts_of(guide))
    assert result.returncode == 0, result.stdout + result.stderr
    passed = re.findall(r"^(?:PASSED|XFAIL) .*::(test_\w+)", result.stdout, re.MULTILINE)
    assert passed, result.stdout
    assert set(tests) <= set(passed), result.stdout


@pytest.mark.parametrize("guide", guides_with("console", "sh"))
def test_commands_run_and_print_what_is_shown(
    guide: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """In a clean repository with the guide's own tests, one after the other; another test reads ``pip install``."""
    without_ci(monkeypatch)
    project = tmp_path / "project"
    project.mkdir()
    write_project(project, guide)
    make_repository_of(project)
    result = [each for block in guide.blocks("console", "sh") for each in commands_of(block.text, block.language)]
    commands = [each for each in result if not each.words.startswith("pip install")]
    instead = {}
    if any(ADDRESS in command.words for command in commands):
        server: PostgresServer = request.getfixturevalue("postgres_server")
        instead = {ADDRESS: server.new_database()}
    for done in run_commands(project, commands, addopts_of(guide), instead):
        assert done.code == 0, f"{done.command.words}\n{done.output}"
        assert not_printed(done) == [], f"{done.command.words}\n{done.output}"


@pytest.mark.parametrize("guide", guides_with("console example"))
def test_commands_about_the_example_run_in_it(guide: Document, tmp_path: Path) -> None:
    """In a copy of the example project, which has the models that such a block names."""
    project = copy_example(tmp_path)
    commands = [each for block in guide.blocks("console example") for each in commands_of(block.text, "console")]
    for done in run_commands(project, commands, "--quant-max-time=1"):
        assert done.code == 0, f"{done.command.words}\n{done.output}"
        assert not_printed(done) == [], f"{done.command.words}\n{done.output}"
