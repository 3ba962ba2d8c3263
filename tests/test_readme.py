"""README.md is short and true: its tests run, its commands are the ones that CI runs."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

from pytest_quant.init.project import RUNNERS
from tests.figures import THEME, draw
from tests.support.documents import GUIDES, README, guides
from tests.support.example import ROOT
from tests.support.guide_project import run_tests
from tests.support.workflows import lint_github, parse

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def commands() -> list[str]:
    """Return the commands: the one that installs and runs the example, and the one that runs all tests."""
    return [block.text.rstrip("\n") for block in README.blocks("sh")]


def test_it_is_read_in_a_few_minutes() -> None:
    """At most 150 lines; what the project is stands in five lines below the first sentence."""
    assert len(README.text.splitlines()) <= 150
    paragraphs = README.text.split("\n\n")
    assert len(paragraphs[2].splitlines()) == 5


def test_python_blocks_run_and_every_test_in_them_passes(tmp_path: Path) -> None:
    """The smallest tests of an ONNX file and of a torch module, pasted into an empty folder."""
    blocks = README.blocks("python")
    for block in blocks:
        (tmp_path / block.file_name).write_text(block.text, "utf-8")
    tests = [name for block in blocks for name in re.findall(r"def (test_\w+)", block.text)]
    result = run_tests(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    passed = re.findall(r"^PASSED .*::(test_\w+)", result.stdout, re.MULTILINE)
    assert sorted(tests) == sorted(passed), result.stdout


def test_two_commands_do_everything() -> None:
    """The example and the tests, each installed and run in one line; the second is the one that CI runs."""
    assert [len(command.splitlines()) for command in commands()] == [1, 1]
    assert (ROOT / ".ci" / "run").read_text("utf-8").splitlines().count(commands()[1]) == 1
    for command in commands():
        first, *others = command.split(" && ")
        python = f"{first.split()[-1]}/bin/python "
        assert [other for other in others if not other.startswith(python)] == []


def test_the_workflow_runs_them_on_every_system(tmp_path: Path) -> None:
    """On each image that ``init`` offers and each Python that is declared, and the second one on Linux."""
    file = ROOT / ".github" / "workflows" / "tests.yml"
    copied = tmp_path / file.name
    copied.write_text(file.read_text("utf-8"), "utf-8")
    assert lint_github(copied) == ""
    jobs = parse(file)["jobs"]
    versions = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if ":: Python :: 3." in name]
    assert jobs["readme"]["strategy"]["matrix"] == {"runner": list(RUNNERS), "python": versions}
    lines = [line for step in jobs["readme"]["steps"] for line in step.get("run", "").splitlines()]
    example, tests = commands()
    assert {part.replace(".venv/bin/", "") for part in example.split(" && ")[1:]} <= set(lines)
    assert tests in [step.get("run") for step in jobs["suite"]["steps"]]


def test_commands_install_what_the_project_pins() -> None:
    """The version of torch in the command is the one in pyproject.toml, and each file that it reads is there."""
    (torch,) = [name for name in PROJECT["optional-dependencies"]["dev"] if name.startswith("torch==")]
    example, tests = (shlex.split(command) for command in commands())
    assert torch in tests
    assert ".[example]" in example
    assert ".[dev]" in tests
    assert (ROOT / example[-1]).is_dir()
    for words in (example, tests):
        assert (ROOT / words[words.index("-r") + 1]).is_file()


def test_a_picture_shows_lines_whole_and_failures_red() -> None:
    """Nothing is drawn beyond the right edge of a picture."""
    row = "test_static_everything  \x1b[31mFAIL\x1b[0m"
    long = " ".join(f"word{place}" for place in range(60))
    picture = draw(f"{row}\n{long}", "python -m pytest", "test")
    width = float(re.findall(r'viewBox="0 0 ([\d.]+)', picture)[0])
    drawn = re.findall(r'<text class="test-r\d+" x="([\d.]+)" y="[\d.]+" textLength="([\d.]+)"', picture)
    assert max(float(left) + float(length) for left, length in drawn) < width
    assert all(f"word{place}" in picture for place in range(60))
    red = "#{:02x}{:02x}{:02x}".format(*THEME.ansi_colors[1])
    assert red in picture


def test_every_guide_is_linked() -> None:
    """And both pictures."""
    targets = {(ROOT / link).resolve() for link in README.links()}
    assert {guide.file for guide in guides()} <= targets
    assert set((GUIDES / "images").glob("*.svg")) <= targets
