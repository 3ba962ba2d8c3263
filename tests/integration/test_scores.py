"""Scores that another program gave: from files to a verdict, a history, a comparison, a comment and a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pytest_quant.cli import commands
from tests.integration.projects import output, run_marks, run_project
from tests.support.example import ROOT
from tests.support.in_process import run_here
from tests.support.llama import losses, plain
from tests.support.repository import make_repository, without_ci

CONFTEST = """
import pytest
import pytest_quant


@pytest.fixture
def both():
    return pytest_quant.Scores.from_files("fp16.jsonl", "int4.jsonl")


@pytest.fixture
def alone():
    return pytest_quant.Scores.from_files(candidate="int4.jsonl")


@pytest.fixture
def nothing():
    return pytest_quant.Scores.from_files("fp16.jsonl", "lost.jsonl")


@pytest.fixture
def no_scores():
    return [0.5, 0.7]
"""

TESTS = """
import pytest


@pytest.mark.quant(scores="both", max_drop=2.0)
def test_both(): pass


@pytest.mark.quant(scores="alone", max_drop=2.0, max_drop_increase=2.0)
def test_alone(): pass
"""


def write_scores(path: Path, wrong: int, n: int = 1000) -> None:
    """Write right and wrong answers to n questions."""
    rows = ({"id": f"q{place}", "score": float(place >= wrong)} for place in range(n))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_runs(folder: Path, wrong: int) -> None:
    """Write what both sides answered: the reference all right."""
    write_scores(folder / "fp16.jsonl", 0)
    write_scores(folder / "int4.jsonl", wrong)


def test_scores_need_neither_model_nor_data_and_have_no_engine_figures(pytester: pytest.Pytester) -> None:
    """What cannot be known is null; the name of the check is that of the fixture."""
    pytester.makeconftest(CONFTEST)
    write_runs(pytester.path, wrong=3)
    result, checks = run_marks(pytester, {"it": "scores='both', max_drop=2.0"})
    result.assert_outcomes(passed=1)
    check = checks["it"]
    assert (check["model"], check["backend"], check["precision"], check["scheme"]) == ("both", "scores", None, None)
    assert [check[section] for section in ("coverage", "latency", "resources", "cache")] == [None] * 4
    assert check["isa"] == "unknown"
    assert check["accuracy"]["drop"] == pytest.approx(0.3)
    assert (check["accuracy"]["reference_runs"], check["accuracy"]["candidate_runs"]) == (1, 1)


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("scores='nothing', max_drop=1.0", ["there is no such file or folder of scores", "lost.jsonl, looked for in"]),
        ("scores='no_scores', max_drop=1.0", ["'no_scores' must give Scores", "list", "Scores.from_lm_eval"]),
        ("scores='anything', max_drop=1.0", ["scores='anything' is no fixture"]),
    ],
)
def test_scores_that_are_not_there_are_errors_with_a_record(
    pytester: pytest.Pytester, mark: str, words: list[str]
) -> None:
    """The set-up says what is missing and what to write, and the record is an ERROR."""
    pytester.makeconftest(CONFTEST)
    write_runs(pytester.path, wrong=3)
    result, checks = run_marks(pytester, {"it": mark})
    result.assert_outcomes(errors=1)
    assert [word for word in words if word not in output(result)] == []
    assert checks["it"]["status"] == "ERROR"
    assert "Traceback" not in output(result)


LOGS = """
import pathlib

import numpy as np
import pytest
import pytest_quant

LOGS = pathlib.Path(%r)


@pytest.fixture
def speech():
    words = np.full(200, 10)
    before, after = (
        {"numerator": errors, "denominator": words} for errors in (np.arange(200) %% 5 == 0, np.arange(200) %% 4)
    )
    return pytest_quant.Scores.from_arrays(before, after, better="lower", name="wer", cluster=np.arange(200) // 5)


@pytest.fixture
def inspected():
    return pytest_quant.Scores.from_inspect(LOGS / "fp16.eval", LOGS / "int4.eval")


@pytest.fixture
def llama():
    return pytest_quant.Scores.from_llama_perplexity("fp16.log", "q4.log")
"""


def test_ratios_and_logs_of_other_programs_are_judged_and_recorded(pytester: pytest.Pytester) -> None:
    """15 errors in 100 words in place of 2 fail, 8 questions of inspect tell nothing, a perplexity is a fact."""
    pytester.makeconftest(LOGS % str(ROOT / "tests" / "unit" / "data" / "inspect_logs"))
    for name, more in (("fp16", 0.0), ("q4", 0.02)):
        (pytester.path / f"{name}.log").write_text(plain(losses(50, 1, more)))
    result, checks = run_marks(
        pytester,
        {
            "wer": "scores='speech', max_drop=5.0",
            "grades": "scores='inspected', max_drop=2.0",
            "perplexity": "scores='llama', min_ratio=0.97",
            "worse": "scores='llama', max_drop=0.01",
        },
    )
    statuses = {"wer": "FAIL", "grades": "INCONCLUSIVE", "perplexity": "PASS", "worse": "FAIL"}
    assert {name: check["status"] for name, check in checks.items()} == statuses
    assert checks["wer"]["accuracy"]["drop"] == pytest.approx(13.0)
    assert "max_drop 13 > 5.0 pp" in output(result)
    assert "Traceback" not in output(result)


def test_missing_answers_are_counted_on_the_terminal_and_in_markdown(pytester: pytest.Pytester) -> None:
    """Five answers that never came are half a point of a thousand: a PASS at 2 points says so, and none is at 0.2."""
    pytester.makeconftest(CONFTEST)
    write_scores(pytester.path / "fp16.jsonl", 0)
    write_scores(pytester.path / "int4.jsonl", 0, n=995)
    comment = pytester.path / "comment.md"
    result, checks = run_marks(
        pytester, {"wide": "scores='both', max_drop=2.0", "near": "scores='both', max_drop=0.2"},
        f"--quant-markdown={comment}",
    )  # fmt: skip
    assert {name: check["status"] for name, check in checks.items()} == {"wide": "PASS", "near": "INCONCLUSIVE"}
    assert (checks["wide"]["accuracy"]["candidate_missing"], checks["wide"]["accuracy"]["n"]) == (5, 995)
    line = "warning: test_wide, test_near: samples missing in the candidate and left out of both sides: 5"
    assert line in output(result)
    assert line in comment.read_text("utf-8")


def test_the_body_of_a_test_sees_the_scores_and_no_engine(pytester: pytest.Pytester) -> None:
    """`quant.accuracy` has them; `quant_engine` is an error that says so."""
    pytester.makeconftest(CONFTEST)
    write_runs(pytester.path, wrong=3)
    pytester.makepyfile(
        TESTS.replace(
            "test_both(): pass", "test_both(quant): assert quant.accuracy.drop == pytest.approx(0.3)"
        ).replace("test_alone(): pass", "test_alone(quant_engine): pass")
    )
    result, _ = run_project(pytester)
    result.assert_outcomes(passed=1, errors=1)
    assert "a check of scores has no engines" in output(result)


def test_a_history_of_scores_is_compared_accepted_and_commented(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A candidate alone has no baseline, then passes and fails against main's; all that is told of a branch works."""
    without_ci(monkeypatch)
    monkeypatch.chdir(pytester.path)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_it=TESTS)
    write_runs(pytester.path, wrong=3)
    repository = make_repository(pytester.path)
    repository.git("add", "conftest.py", "test_it.py", "fp16.jsonl", "int4.jsonl")
    repository.commit("main")
    assert _statuses(pytester) == {"both": "PASS", "alone": "NO_BASELINE"}

    repository.git("checkout", "-b", "topic")
    repository.commit("nothing new")
    assert _statuses(pytester) == {"both": "PASS", "alone": "PASS"}
    accepted = CliRunner().invoke(commands, ["accept", "--reason", "first", "--series", "alone"])
    assert "1 series accepted" in accepted.output
    without_history = _statuses(pytester, f"--quant-history={pytester.path / 'new.db'}")
    assert without_history["alone"] == "PASS"

    write_runs(pytester.path, wrong=60)
    repository.git("add", "int4.jsonl")
    repository.commit("worse")
    page, comment = pytester.path / "page.html", pytester.path / "comment.md"
    statuses = _statuses(pytester, "--quant-compare", f"--quant-html={page}", f"--quant-markdown={comment}")
    assert statuses == {"both": "FAIL", "alone": "FAIL"}
    assert "| **regression** | test_it.py::test_alone scores | accuracy |" in comment.read_text("utf-8")
    assert "max_drop 6 &gt; 2.0 pp" in page.read_text("utf-8")


def _statuses(pytester: pytest.Pytester, *args: str) -> dict[str, str]:
    """Run the project and return the status of each check by the name of its test."""
    _, checks = run_project(pytester, *args)
    return {check["nodeid"].partition("::test_")[2]: check["status"] for check in checks}


def test_scores_run_beside_engines_on_several_workers(pytester: pytest.Pytester) -> None:
    """The table has a dash for what scores do not tell, and records come from workers whole."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_it=TESTS)
    write_runs(pytester.path, wrong=100)
    result = pytester.runpytest_subprocess("-n", "2", "--quant-no-history")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*- nothing was tried: scores are given*", "*test_both * 10.00 * FAIL*", "*max_drop 10 > 2.0 pp*"]
    )
    strict = run_here(pytester, "--quant-no-history", "--quant-strict")
    strict.assert_outcomes(failed=2)
