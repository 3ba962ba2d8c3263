"""A run for a pull request: Markdown, the summary of a step of GitHub Actions. The session is a fake."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.fake_session import run_fake, run_fake_apart
from tests.integration.projects import output
from tests.support.repository import make_repository, without_ci

TWO = """
@mark.quant(output="PASS")
def test_pass(): pass

@mark.quant(output="FAIL")
def test_fail(): pass
"""
FINE = TWO.split('@mark.quant(output="FAIL")')[0]
PLAIN = "def test_plain(): pass\n"
MARKDOWN = "--quant-markdown=out/quant.md"


def written(pytester: pytest.Pytester, name: str = "out/quant.md") -> list[str]:
    """The lines of the file."""
    return (pytester.path / name).read_text("utf-8").splitlines()


def on_github(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be a job of GitHub Actions; return the file of the summary of its step."""
    without_ci(monkeypatch)
    summary = pytester.path / "step-summary"
    for name, value in (
        ("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", summary), ("GITHUB_WORKSPACE", pytester.path)
    ):  # fmt: skip
        monkeypatch.setenv(name, str(value))
    return summary


def commands(result: pytest.RunResult) -> list[str]:
    """The lines of the output that GitHub reads as commands."""
    return [line for line in output(result).splitlines() if re.match(r"\s*::|.*##\w*\[", line)]


OUTCOMES = {
    "fine": (FINE, (), 0, "**PASS: 1 check: 1 PASS**"),
    "no mark": (PLAIN, (), 0, "**PASS: no checks**"),
    "no test": ("", (), 5, "**FAIL: no checks; pytest failed for another reason than a check**"),
    "an expected failure": (
        TWO.replace('@mark.quant(output="FAIL")', '@mark.xfail\n@mark.quant(output="FAIL")'),
        (),
        0,
        "**PASS: 2 checks: 1 PASS, 1 XFAIL**",
    ),
    "undecided and strict": (
        FINE.replace("PASS", "INCONCLUSIVE"),
        ("--quant-strict",),
        1,
        "**FAIL: 1 check: 1 INCONCLUSIVE**",
    ),
    "required": (FINE.replace("PASS", "unavailable"), ("--quant-require=ort",), 1, "**FAIL: 1 check: 1 UNAVAILABLE**"),
    "broken": (FINE.replace("PASS", "broken"), (), 1, "**FAIL: 1 check: 1 ERROR**"),
    "another test": (
        f"{FINE}\ndef test_other(): assert False\n",
        (),
        1,
        "**FAIL: 1 check: 1 PASS; pytest failed for another reason than a check**",
    ),
    "its own body": (FINE.replace(": pass", ": assert False"), (), 1, "**FAIL: 1 check: 1 TEST FAILED**"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "args", "code", "verdict"), OUTCOMES.values(), ids=OUTCOMES)
def test_the_verdict_agrees_with_the_exit_code(
    pytester: pytest.Pytester, source: str, args: tuple[str, ...], code: int,
    verdict: str,
) -> None:  # fmt: skip
    """Whatever decides it: FAIL wherever it is not 0, and nowhere else."""
    result = run_fake(pytester, source, MARKDOWN, *args)
    assert (result.ret, written(pytester)[1]) == (code, verdict)


def test_what_fails_a_run_beside_its_checks_is_in_the_report(pytester: pytest.Pytester) -> None:
    """A document that cannot be written, for one; that of the report itself is tried in `test_run_end`."""
    (pytester.path / "file").touch()
    run_fake(pytester, FINE, MARKDOWN, "--quant-json=file/run.json")
    lines = written(pytester)
    assert lines[1] == "**FAIL: 1 check: 1 PASS**"
    assert any(line.startswith("- --quant-json: ") and "cannot be written" in line for line in lines)


def test_a_comparison_of_the_run_is_in_it(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its base, its headline and its rows, as on the terminal; after ``-x`` no test of the base is called gone."""
    without_ci(monkeypatch)
    repository = make_repository(pytester.path)
    repository.commit("1")
    # Its files are no part of the commits.
    (pytester.path / ".gitignore").write_text("*.py\n")
    run_fake(pytester, TWO.replace('"FAIL"', '"PASS"'))
    repository.git("checkout", "-b", "topic")
    repository.commit("2")
    result = run_fake_apart(pytester, TWO, "--quant-compare", MARKDOWN, "-n", "2")
    fork = repository.git("rev-parse", "main")
    result.stdout.fnmatch_lines(["*= quant =*", "*- quant compare -*", f"base {fork[:12]}: merge base with main"])
    lines = written(pytester)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert lines[1].startswith("**FAIL: REGRESSION: 1 regression")
    assert lines[1].endswith("; 2 checks: 1 PASS, 1 FAIL**")
    assert f"base {fork[:12]}: merge base with main" in lines
    assert any(line.startswith("| **regression** | test_it.py::test_fail") for line in lines)
    assert "rows regressed" not in "\n".join(lines)
    # On the same commit the test would not be gone, which an earlier run of it has.
    repository.commit("3")
    result = run_fake(pytester, FINE, "--quant-compare", MARKDOWN)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "--quant-compare: 1 test of the base gone; if that is meant" in output(result)
    assert any(
        "1 test of the base gone; if that is meant, for each: pytest-quant accept" in line for line in written(pytester)
    )
    stopped = run_fake(pytester, TWO.replace('"PASS"', '"FAIL"'), "--quant-compare", "-x")
    assert "1 test not run here" in " ".join(output(stopped).split())
    assert "of the base gone" not in output(stopped)


def test_the_summary_of_a_step_gets_the_same(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind what others have written there; not where its name is empty, or without a check."""
    summary = on_github(pytester, monkeypatch)
    summary.write_text("# Others\n")
    run_fake(pytester, TWO, MARKDOWN)
    assert summary.read_text().startswith("# Others\n<!-- pytest-quant comment -->\n**FAIL: 2 checks")
    assert (pytester.path / "out/quant.md").read_text() in summary.read_text()
    summary.unlink()
    for source, named in ((TWO, ""), (PLAIN, str(summary))):
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", named)
        result = run_fake(pytester, source)
        assert not summary.exists()
        assert commands(result) == []


def test_a_summary_that_is_full_or_cannot_be_written_is_a_warning(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GitHub shows nothing of one that is too large; the run is what it was."""
    summary = on_github(pytester, monkeypatch)
    summary.write_bytes(b"x" * 1024 * 1024)
    result = run_fake(pytester, FINE)
    assert (result.ret, summary.stat().st_size) == (0, 1024 * 1024)
    assert "GITHUB_STEP_SUMMARY is full" in output(result)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "none" / "summary"))
    result = run_fake(pytester, FINE)
    assert result.ret == 0
    assert "empty it to do without" in output(result)
