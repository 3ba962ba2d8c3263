"""With the core alone a check runs, is judged and written as JSON; a history is an extra, and its absence is told once.

Every package that is installed here and that the core does not bring is kept from being imported, so that what the core
needs without asking for it is seen too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.integration.projects import CONFTEST, DATA, TEST, read_checks
from tests.support import models
from tests.support.commands import all_commands, top_commands
from tests.support.example import environment
from tests.support.third_party import register_backend

ROOT = Path(__file__).parents[2]
CORE: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
BROUGHT = ("onnx", "pip")
"""What the backend of these tests asks for as a third party's would, and what every environment has."""

LINE = (
    "no history is written: it needs sqlalchemy, which is not installed; "
    'to keep one: pip install "pytest-quant[history]"; to do without: --quant-no-history'
)


def brought_by(lines: list[str]) -> set[str]:
    """Return the distributions that these requirements bring here, by their normal names."""
    result: set[str] = set()
    ahead = [canonicalize_name(Requirement(line).name) for line in lines]
    while ahead:
        name = ahead.pop()
        if name in result:
            continue
        result.add(name)
        try:
            below = map(Requirement, requires(name) or [])
        except PackageNotFoundError:
            continue
        ahead += [canonicalize_name(each.name) for each in below if each.marker is None or each.marker.evaluate()]
    return result


@pytest.fixture(scope="module")
def only_core(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process in which importing ``only_core`` leaves the core, and the backend in numpy."""
    folder = tmp_path_factory.mktemp("core")
    core_packages = brought_by([*CORE, *BROUGHT]) | {"pytest-quant"}
    hidden = sorted(
        module
        for module, distributions in packages_distributions().items()
        if not core_packages & {canonicalize_name(name) for name in distributions}
    )
    assert {"sqlalchemy", "pynvml", "onnxruntime", "xdist"} <= set(hidden)
    (folder / "only_core.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({hidden!r}))\n")
    register_backend(folder, "numpy")
    # Plugins of pytest that are hidden would be loaded by their entry points.
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": f"{folder}:{ROOT}"}
    return environment() | alone


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose one check has an accepted baseline to look for, so that the history is asked too."""
    models.select_first(tmp_path / "model.onnx")
    (tmp_path / "conftest.py").write_text(CONFTEST.format(model="model.onnx", data=DATA))
    mark = "backend='numpy', max_drop=50.0, max_drop_increase=1.0, min_coverage=0"
    (tmp_path / "test_model.py").write_text(TEST.format(mark=mark, body="pass"))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def run(project: Path, only_core: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the project's tests with the core alone."""
    plugins = ("-p", "only_core", "-p", "pytest_benchmark.plugin", "-p", "pytest_quant.plugin")
    command = [sys.executable, "-m", "pytest", *plugins, "-p", "no:cacheprovider", "--quant-json=run.json"]
    return subprocess.run(
        [*command, *arguments], cwd=project, env=only_core, capture_output=True, text=True, check=False, timeout=300
    )


def test_a_check_is_judged_and_the_history_told_once(project: Path, only_core: dict[str, str]) -> None:
    """The test passes, the record is in the JSON file, and neither a history nor a file beside it is made."""
    ran = run(project, only_core)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("no history is written") == 1
    assert LINE in ran.stdout.splitlines()
    (check,) = read_checks(project / "run.json")
    assert check["status"] == "NO_BASELINE"
    (verdict,) = [each for each in check["verdicts"] if each["limit"] == "max_drop_increase"]
    assert "there can be no history here: it needs sqlalchemy" in verdict["reason"]
    assert sorted(path.name for path in (project / ".quant").iterdir()) == ["cache"]


def test_a_run_is_a_comment_without_a_history(project: Path, only_core: dict[str, str]) -> None:
    """The records are at hand, and nothing is said of a history that is not wanted."""
    ran = run(project, only_core, "--quant-no-history", "--quant-markdown=quant.md")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "no history is written" not in ran.stdout
    assert (project / "quant.md").read_text().splitlines()[1].startswith("**NO_BASELINE: 1 check: ")
    post = [sys.executable, "-c", "import only_core, pytest_quant.cli.comment"]
    assert subprocess.run(post, env=only_core, check=False).returncode == 0


def test_a_comparison_that_cannot_be_fails_the_run(project: Path, only_core: dict[str, str]) -> None:
    """It was asked for; the outcomes of the tests stay."""
    ran = run(project, only_core, "--quant-compare")
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 passed" in ran.stdout
    assert "--quant-compare: there can be no history here: it needs sqlalchemy" in ran.stdout
    assert '  next: pip install "pytest-quant[history]"' in ran.stdout


WORDS = {
    "accept": ["--reason", "why"],
    "history import": ["runs.jsonl"],
    "history prune": ["--keep-runs", "1"],
    "report": ["-o", "page"],
}
"""What a command asks for before it opens anything."""

ASK = [name for name, each in all_commands().items() if "place" in {parameter.name for parameter in each.params}]
"""The commands that open the history."""

EACH = """
import json, sys
import only_core
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pytest_quant.cli import main

answers = []
for words in json.loads(sys.argv[1]):
    out, err = StringIO(), StringIO()
    sys.argv = ["pytest-quant", *words]
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    answers.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""


def ask(folder: Path, only_core: dict[str, str], commands: list[list[str]]) -> list[tuple[int, str, str]]:
    """Run commands one after the other in one process with the core alone; return exit code, output and errors."""
    ran = subprocess.run(
        [sys.executable, "-c", EACH, json.dumps(commands)], cwd=folder, env=only_core, capture_output=True, check=True
    )
    return [(code, out, err) for code, out, err in json.loads(ran.stdout)]


def test_a_command_that_needs_the_history_tells_the_line(tmp_path: Path, only_core: dict[str, str]) -> None:
    """In the one style of errors, and its help comes all the same."""
    said = "error: there can be no history here: it needs sqlalchemy, which is not installed\n"
    said += '  next: pip install "pytest-quant[history]"\n'
    refused = ask(tmp_path, only_core, [[*name.split(), *WORDS.get(name, [])] for name in ASK])
    assert dict(zip(ASK, refused, strict=True)) == dict.fromkeys(ASK, (2, "", said))
    helped = ask(tmp_path, only_core, [[*name.split(), "--help"] for name in ASK])
    assert [code for code, _, _ in helped] == [0] * len(ASK)


def test_the_others_run(tmp_path: Path, only_core: dict[str, str]) -> None:
    """The machine, the cache, one test, first files and guides need no history, nor do two commits side by side."""
    own = [name for name in top_commands() if name not in ASK and name != "history"]
    assert set(own) == {"bisect", "cache", "check", "comment", "diagnose", "doctor", "guide", "init", "profile"}
    helped = ("bisect", "check", "comment", "diagnose", "init", "profile")
    answers = ask(tmp_path, only_core, [[name, "--help"] if name in helped else [name] for name in own])
    assert [(name, code, err) for name, (code, _, err) in zip(own, answers, strict=True) if code or err] == []


def test_two_commits_are_compared_without_the_libraries_of_a_history(tmp_path: Path, only_core: dict[str, str]) -> None:
    """Each module of that loads with the core alone."""
    modules = [f"pytest_quant.sides.{file.stem}" for file in (ROOT / "pytest_quant" / "sides").glob("[a-z]*.py")]
    code = f"import only_core, {', '.join([*modules, 'pytest_quant.plugin.against'])}"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=only_core, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
