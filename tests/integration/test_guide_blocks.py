"""Every block of the guides runs: Python as a project of tests, commands in a shell with what they shall print."""

from __future__ import annotations

import configparser
import re
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.integration.test_recipes import ALLURE, FIGURES, MLFLOW, PANDAS, TENSORBOARD, WANDB
from tests.reference import declared_options
from tests.support.documents import REFERENCE, Document, guides
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

WRITTEN = [guide for guide in guides() if guide.file != REFERENCE]
"""The guides that are written by hand; the blocks of the reference are made, as all of it is."""

ADDRESS = "postgresql+psycopg://ci@db.example.org/quant"
_ON_SPEED = ("min_speedup", "max_latency_ms", "max_slowdown", "--quant-launches")


def _with(*languages: str) -> list[object]:
    return [pytest.param(guide, id=guide.file.stem) for guide in WRITTEN if guide.blocks(*languages)]


def _addopts(guide: Document) -> str:
    """Leave latency out where a guide is not about it."""
    return "--quant-max-time=1" if any(name in guide.text for name in _ON_SPEED) else "--quant-no-latency"


@pytest.mark.parametrize("guide", _with("python"))
def test_python_blocks_are_a_project_whose_tests_pass(guide: Document, tmp_path: Path) -> None:
    """Each test of each block passes, or fails as its mark expects."""
    tests = write_project(tmp_path, guide)
    result = run_tests(tmp_path, _addopts(guide))
    assert result.returncode == 0, result.stdout + result.stderr
    passed = re.findall(r"^(?:PASSED|XFAIL) .*::(test_\w+)", result.stdout, re.MULTILINE)
    assert passed, result.stdout
    assert set(tests) <= set(passed), result.stdout


@pytest.mark.parametrize("guide", _with("console", "sh"))
def test_commands_run_and_print_what_is_shown(
    guide: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """In a clean repository with the guide's own tests, one after the other; another test reads ``pip install``."""
    without_ci(monkeypatch)
    project = tmp_path / "project"
    project.mkdir()
    write_project(project, guide)
    make_repository_of(project)
    found = [one for block in guide.blocks("console", "sh") for one in commands_of(block.text, block.language)]
    commands = [one for one in found if not one.words.startswith("pip install")]
    instead = {}
    if any(ADDRESS in command.words for command in commands):
        server: PostgresServer = request.getfixturevalue("postgres_server")
        instead = {ADDRESS: server.new_database()}
    for done in run_commands(project, commands, _addopts(guide), instead):
        assert done.code == 0, f"{done.command.words}\n{done.output}"
        assert not_printed(done) == [], f"{done.command.words}\n{done.output}"


@pytest.mark.parametrize("guide", _with("console example"))
def test_commands_about_the_example_run_in_it(guide: Document, tmp_path: Path) -> None:
    """In a copy of the example project, which has the models that such a block names."""
    project = copy_example(tmp_path)
    commands = [one for block in guide.blocks("console example") for one in commands_of(block.text, "console")]
    for done in run_commands(project, commands, "--quant-max-time=1"):
        assert done.code == 0, f"{done.command.words}\n{done.output}"
        assert not_printed(done) == [], f"{done.command.words}\n{done.output}"


def test_settings_are_read() -> None:
    """Options of an ini block are the plugin's; groups of entry points are those that the package looks into."""
    names = declared_options().ini.keys()
    for guide in WRITTEN:
        for block in guide.blocks("ini"):
            parsed = configparser.ConfigParser()
            parsed.read_string(block.text)
            assert parsed["pytest"].keys() <= names, guide.file
        for block in guide.blocks("yaml"):
            assert YAML(typ="safe").load(block.text), guide.file
        for block in guide.blocks("toml"):
            groups = tomllib.loads(block.text)["project"]["entry-points"]
            assert set(groups) <= {"pytest_quant.backends", "pytest_quant.metrics"}, guide.file


def test_no_block_is_left_out() -> None:
    """Each is in a language that a test of this file takes; Python is a file, or a recipe that another test runs.

    What was measured once is ``text``: ``tests/unit/report/test_selftest.py`` reads it.
    """
    taken = {"python", "console", "console example", "sh", "ini", "toml", "yaml", "text"}
    left = [
        (guide.file.name, block.line) for guide in WRITTEN for block in guide.blocks() if block.language not in taken
    ]
    assert left == []
    recipes = {text.strip() for text in (FIGURES, TENSORBOARD, MLFLOW, WANDB, ALLURE, PANDAS)}
    nameless = [block for guide in WRITTEN for block in guide.blocks("python") if not block.file_name]
    assert [block.line for block in nameless if block.text.strip() not in recipes] == []
