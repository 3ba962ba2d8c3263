"""``pytest-quant diagnose``, as a user runs it, on real engines."""

from __future__ import annotations

import json

import pytest

from tests.integration.projects import write_project
from tests.support.history_repository import Answer, run_command
from tests.support.models import select_first


def _diagnose(pytester: pytest.Pytester, *words: str) -> Answer:
    return run_command(pytester.path, "diagnose", *words, columns=100)


def test_a_check_that_passes_has_no_cause(pytester: pytest.Pytester) -> None:
    """It says so with exit 0; the body does not run, and neither records nor files of the ini file are written."""
    select_first(pytester.path / "model.onnx")
    pytester.makeini("[pytest]\nquant_json = run.json\nquant_html = run.html\naddopts = -m slow\n")
    write_project(pytester, body="open('ran', 'w')")
    ran = _diagnose(pytester, "test_model.py", "--budget", "5s")
    assert (ran.returncode, ran.stderr) == (0, "")
    said = "test_model.py::test_model: PASS; every limit holds, so there is no cause to search for"
    assert " ".join(ran.stdout.split()) == said
    as_json = _diagnose(pytester, "test_model.py", "--json")
    assert (as_json.returncode, json.loads(as_json.stdout)) == (0, None)
    left = {file.name for file in pytester.path.iterdir()}
    assert not left & {"ran", "run.json", "run.html", ".pytest_cache"}
    assert not (pytester.path / ".quant" / "history.db").exists()


def test_a_limit_that_is_not_about_outputs_has_none(pytester: pytest.Pytester) -> None:
    """One sentence says why, exit 0; an expected failure is one as well, and what to try is told."""
    select_first(pytester.path / "model.onnx")
    write_project(pytester, mark="max_size_mb=0.0001")
    test = pytester.path / "test_model.py"
    test.write_text(test.read_text("utf-8").replace("@pytest", "@pytest.mark.xfail\n@pytest", 1), "utf-8")
    ran = _diagnose(pytester, "test_model.py")
    assert ran.returncode == 0, ran.stderr
    assert "no limit on the outputs is broken" in ran.stdout
    assert "not passed: max_size_mb" in ran.stdout


def test_it_wants_one_marked_test(pytester: pytest.Pytester) -> None:
    """None is told with exit 2; an error of the check is printed as pytest does, with exit 1."""
    write_project(pytester, model="absent.onnx")
    pytester.makepyfile(test_plain="def test_plain(): pass\n")
    none = _diagnose(pytester, "test_plain.py")
    assert (none.returncode, none.stdout) == (2, "")
    assert "matches no test that is marked with quant" in none.stderr
    error = _diagnose(pytester, "test_model.py")
    assert (error.returncode, error.stdout) == (1, "")
    assert "the model file does not exist" in error.stderr


def test_what_keeps_a_check_from_its_verdict_is_told(pytester: pytest.Pytester) -> None:
    """A skip with its reason, exit 1."""
    write_project(pytester)
    pytester.makepyfile(
        test_model="import pytest\n@pytest.mark.skip(reason='later')\n@pytest.mark.quant\ndef test_model(): pass\n"
    )
    ran = _diagnose(pytester, "test_model.py")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "error: test_model.py was skipped: later" in ran.stderr
