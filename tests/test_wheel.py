"""The wheel has every file of the package as it is here: pages, templates, guides, schemas."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.documents import README

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pytest_quant"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built in this environment, so that nothing is downloaded."""
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (file,) = folder.iterdir()
    return file


def test_it_has_every_file_of_the_package(wheel: Path) -> None:
    """With the same bytes, and nothing else but what says which package it is."""
    here = {
        file.relative_to(ROOT).as_posix(): file.read_bytes()
        for file in PACKAGE.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    with ZipFile(wheel) as archive:
        there = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
    assert there.keys() == here.keys()
    assert [name for name, content in here.items() if there[name] != content] == []
    kinds = {Path(name).suffix for name in there}
    assert kinds >= {".css", ".j2", ".js", ".json", ".md", ".py", ".svg", ".typed"}


def test_it_declares_what_the_project_does(wheel: Path) -> None:
    """The command, the plugin of pytest and the backends, by their entry points; and the licence."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    about = f"pytest_quant-{project['version']}.dist-info"
    read = configparser.ConfigParser(delimiters="=")
    with ZipFile(wheel) as archive:
        read.read_string(archive.read(f"{about}/entry_points.txt").decode())
        assert archive.read(f"{about}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    declared = {"console_scripts": project["scripts"], **project["entry-points"]}
    assert {name: dict(read[name]) for name in read.sections()} == declared


def test_what_an_index_shows_leads_nowhere_else(wheel: Path) -> None:
    """No picture and no link of the repository, which an index has not; each guide by the topic that shows it."""
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        shown = archive.read(name).decode().partition("\n\n")[2]
    assert shown.startswith("# pytest-quant\n")
    assert re.findall(r"\]\((?!https?:)[^)]*\)", shown) == []
    for topic in (file.stem for file in (PACKAGE / "guides").glob("*.md") if file.stem != "README"):
        assert f"(`{topic}`)" in shown
    assert README.blocks("python")[0].text in shown


def test_a_guide_is_shown_from_it(wheel: Path, tmp_path: Path) -> None:
    """Outside of a checkout, by the files of the wheel alone."""
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop()); from pytest_quant import cli; print(cli.__file__); cli.main()"
    )
    command = (sys.executable, "-P", "-c", code, "guide", "first-check", str(tmp_path))
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    place, _, guide = shown.stdout.partition("\n")
    assert Path(place).is_relative_to(tmp_path)
    assert guide.startswith("# First check")
