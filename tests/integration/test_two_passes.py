"""Accuracy on one machine, latency on another: two runs of pytest over one commit are one check in what is reported."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.integration.projects import CONFTEST, TEST, read_checks, write_project
from tests.support.history_repository import Answer, run_command
from tests.support.in_process import run_here
from tests.support.models import select_first
from tests.support.repository import ScratchRepository, make_repository, without_ci

DATA = "return Dataset.from_arrays(x, y, calibration=int(pytest.CALIBRATION))"
MARK = "max_drop=5.0, min_agreement=80, min_speedup=0.001, max_latency_ms={}"
FIRST, SECOND = "--quant-no-latency", "--quant-only-latency"
WHOLE, ACCURATE, FAST = "Xeon", "EPYC", "Xeon"
"""The processors of the base, and of both passes."""


class Project:
    """A repository whose branch ``topic`` is to be merged into ``main``, and a history of both."""

    def __init__(self, pytester: pytest.Pytester, repository: ScratchRepository) -> None:
        self.pytester = pytester
        self.repository = repository
        self.folder = pytester.path
        self.runs = 0

    def commit(self, max_latency_ms: float, *more: str) -> None:
        """Commit the test with this limit, and more of them."""
        mark = ", ".join((MARK.format(max_latency_ms), *more))
        (self.folder / "test_model.py").write_text(TEST.format(mark=mark, body="pass"))
        self.repository.git("add", "--all")
        self.repository.git("commit", "-m", f"at most {max_latency_ms} ms")

    def run(self, cpu: str, *options: str, calibration: int = 40) -> dict[str, Any]:
        """Run pytest on a machine with this processor, import its records, and return the check."""
        self.runs += 1
        file = self.folder / f"run{self.runs}.json"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pytest, "CALIBRATION", calibration, raising=False)
            given = ("-p", "no:cacheprovider", "--quant-no-history", "--quant-max-time=0.5", "-W", "ignore")
            run_here(self.pytester, *given, f"--quant-json={file}", f"--quant-cache=cache-{cpu}", *options)
        document = json.loads(file.read_text())
        document["run"]["environment"]["identity"]["cpu"] = cpu
        file.write_text(json.dumps(document))
        assert self.ask("history", "import", str(file)).returncode == 0
        (check,) = document["checks"]
        return dict(check)

    def ask(self, *words: str) -> Answer:
        """Run the command ``pytest-quant`` here."""
        return run_command(self.folder, *words, "--history=history.db")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """With one whole run of ``main``; ``topic`` has no commit of its own yet."""
    without_ci(monkeypatch)
    select_first(pytester.path / "model.onnx")
    pytester.makeconftest(CONFTEST.format(model="model.onnx", data=DATA))
    (pytester.path / ".gitignore").write_text("cache-*\nrun*.json\n*.db\n*.html\n.quant\n")
    (pytester.path / "pytest.ini").write_text("[pytest]\n")
    project = Project(pytester, make_repository(pytester.path))
    project.commit(1000.0)
    whole = project.run(WHOLE)
    assert whole["status"] == "PASS"
    project.repository.git("checkout", "-b", "topic")
    return project


def statuses(check: dict[str, Any]) -> dict[str, str]:
    """Status by limit."""
    return {verdict["limit"]: verdict["status"] for verdict in check["verdicts"]}


def compared(project: Project) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Return the exit code of a comparison, its rows by quantity, and its notes."""
    said = project.ask("compare", "--json")
    document = json.loads(said.stdout)
    rows = {row["quantity"]: row for row in document["rows"]}
    assert len(rows) == len(document["rows"])
    return said.returncode, rows, "; ".join(document["notes"])


BOTH = re.compile(r"two passes, accuracy: EPYC, \w+, \d+ cores?; latency: Xeon, \w+, \d+ cores?")


@pytest.mark.parametrize(("max_latency_ms", "status", "code"), [(999.0, "PASS", 0), (1e-6, "FAIL", 1)])
def test_both_passes_are_one_check(project: Project, max_latency_ms: float, status: str, code: int) -> None:
    """One row with the figures of both; the exit code is that of both together, and both machines are named."""
    project.commit(max_latency_ms)
    first, second = project.run(ACCURATE, FIRST), project.run(FAST, SECOND)
    assert first["digests"] == second["digests"]
    assert (first["latency"], second["accuracy"]) == (None, None)
    assert (first["status"], second["cache"]) == ("INCONCLUSIVE", {"engine": "hit"})
    for limit in ("max_drop", "min_agreement"):
        assert (statuses(first)[limit], statuses(second)[limit]) == ("PASS", "INCONCLUSIVE")
    for limit in ("min_speedup", "max_latency_ms"):
        assert statuses(first)[limit] == "INCONCLUSIVE"
    exit_code, rows, notes = compared(project)
    assert exit_code == code
    assert (rows["status"]["base"], rows["status"]["head"]) == ("PASS", status)
    assert (rows["accuracy"]["outcome"], rows["accuracy"]["change"]) == ("unchanged", 0.0)
    assert rows["speedup"]["head"] == pytest.approx(second["latency"]["speedup"])
    assert BOTH.search(notes)
    comment = project.ask("compare", "--markdown").stdout
    assert comment.splitlines()[1].startswith(f"**{status}: ")
    assert f"1 check: 1 {status}" in comment
    assert BOTH.search(comment)
    project.ask("report", "--output=page.html")
    assert "EPYC" in (project.folder / "page.html").read_text()


def test_a_pass_that_compares_itself_is_joined_first(project: Project) -> None:
    """Of the other pass the history knows already."""
    project.commit(999.0)
    project.run(ACCURATE, FIRST)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pytest, "CALIBRATION", 40, raising=False)
        options = (SECOND, "--quant-compare", "--quant-history=history.db", f"--quant-cache=cache-{FAST}")
        result = run_here(project.pytester, "-p", "no:cacheprovider", "--quant-max-time=0.5", "-W", "ignore", *options)
    assert result.ret == 0
    said = result.stdout.str()
    assert "the head, 1 record: two passes, accuracy: EPYC" in said
    assert "unchanged: 1 accuracy, 1 coverage, 1 size, 1 status" in said


def test_no_remedy_is_tried_without_accuracy(pytester: pytest.Pytester) -> None:
    """Trials would evaluate the data, and could not tell what they cost."""
    select_first(pytester.path / "model.onnx")
    write_project(pytester, mark="min_coverage=100, exclude=['scores']")
    hints = {}
    for option in (FIRST, SECOND):
        run_here(pytester, "-p", "no:cacheprovider", "--quant-max-time=0.5", "--quant-json=run.json", option)
        (check,) = read_checks(pytester.path / "run.json")
        assert check["status"] == "FAIL"
        hints[option] = check["hints"]
    assert hints[FIRST]
    assert not hints[SECOND]
