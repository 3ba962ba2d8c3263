"""Whole runs as on macOS and on Windows: without what those systems lack, and refused what they refuse.

`tests.support.other_system` says what is emulated. No such machine has run this.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.integration.projects import CONFTEST, DATA, TEST, read_checks
from tests.support.example import TIME_LIMIT_S, WITHOUT_PLUGINS
from tests.support.models import select_first
from tests.support.other_system import SYSTEMS, variables
from tests.support.repository import ScratchRepository, make_repository

MARK = "max_drop=50.0, min_speedup=0.001"
RUN = ("pytest", "-q", "-p", "no:cacheprovider", *WITHOUT_PLUGINS, "--quant-max-time=0.5")


@pytest.fixture(scope="module", params=SYSTEMS)
def system(request: pytest.FixtureRequest) -> str:
    """The system that is emulated."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def repository(system: str, tmp_path_factory: pytest.TempPathFactory) -> ScratchRepository:
    """The repository of a user on that system, with its first commit."""
    result = make_repository(tmp_path_factory.mktemp(system))
    select_first(result.path / "model.onnx")
    (result.path / "test_model.py").write_text(TEST.format(mark=MARK, body="pass"), "utf-8")
    (result.path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    _commit(result, DATA)
    return result


def _commit(repository: ScratchRepository, data: str) -> None:
    """Commit a ``quant_data`` with this last line."""
    (repository.path / "conftest.py").write_text(CONFTEST.format(model="model.onnx", data=data), "utf-8")
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "A commit")


def said(repository: ScratchRepository, system: str, *arguments: str) -> str:
    """Run a module of Python there to its end, which is a good one, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=repository.path,
        env=variables(system, repository.path / ".git" / "locks"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=TIME_LIMIT_S,
    )
    assert done.returncode == 0, done.stdout
    assert not re.search("Traceback|INTERNALERROR", done.stdout), done.stdout
    return done.stdout


def test_a_story_of_two_commits(repository: ScratchRepository, system: str) -> None:
    """A check with latency; the next commit in two launches, and beside the first; what reads their records."""
    document, page = repository.path / ".git" / "run.json", repository.path / ".git" / "page.html"
    said(repository, system, *RUN, f"--quant-json={document}")
    (check,) = read_checks(document)
    assert (check["status"], check["cache"]) == ("PASS", {"engine": "built", "reference": "built"})
    assert check["latency"]["small_pages"] is True
    _commit(repository, DATA.replace("calibration=40", "calibration=30"))
    said(repository, system, *RUN, "--quant-launches=2", f"--quant-json={document}", f"--quant-html={page}")
    (check,) = read_checks(document)
    further, latency = check["latency"]["launches"], check["latency"]
    # A machine that is busy with other work makes one worthless, and says so.
    assert len(further) == 1 or latency["reasons"] or any("does not count" in note for note in latency["notes"])
    assert "test_model.py::test_model" in page.read_text("utf-8")
    # No change is near the limit; whether a small one is proven depends on what else the machine does.
    against = said(repository, system, *RUN, "--quant-against=HEAD~1", "--quant-against-limit=50")
    assert re.search(r"::test_model ort-int8-static(\n +(unchanged|better|worse))? +p50", against), against
    assert "pairs of processes" in against
    compared = said(repository, system, "pytest_quant", "compare", "HEAD~1", "HEAD")
    assert re.search(r"\(main, 1 run\) -> \w+ \(main, 2 runs\)", compared), compared
    history = said(repository, system, "pytest_quant", "history")
    assert history.count("1 PASS") == 3


def test_the_doctor_says_what_is_there(repository: ScratchRepository, system: str) -> None:
    """Backends on the processor, and why there are none on a GPU."""
    text = said(repository, system, "pytest_quant", "doctor")
    assert re.search(r"^ort +\d", text, re.MULTILINE), text
    assert re.search(r"^ort-cuda +there is no NVIDIA driver here", text, re.MULTILINE), text
    assert re.search(r"^  isa +(?!unknown)\w+$", text, re.MULTILINE), text
