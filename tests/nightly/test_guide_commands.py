"""Commands of the guides run in a shell and print what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.test_guide_blocks import addopts_of, guides_with
from tests.support.documents import Document
from tests.support.example import copy_example
from tests.support.guide_project import commands_of, make_repository_of, not_printed, run_commands, write_project
from tests.support.postgres import PostgresServer
from tests.support.repository import without_ci

ADDRESS = "postgresql+psycopg://ci@db.example.org/quant"


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
    found = [one for block in guide.blocks("console", "sh") for one in commands_of(block.text, block.language)]
    commands = [one for one in found if not one.words.startswith("pip install")]
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
    commands = [one for block in guide.blocks("console example") for one in commands_of(block.text, "console")]
    for done in run_commands(project, commands, "--quant-max-time=1"):
        assert done.code == 0, f"{done.command.words}\n{done.output}"
        assert not_printed(done) == [], f"{done.command.words}\n{done.output}"
