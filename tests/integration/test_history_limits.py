"""Limits against earlier records, through real engines, git and the file of baselines."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from pytest_quant.cli import commands
from pytest_quant.history.baselines.file import NAME
from tests.integration.projects import output, read_checks, run_project, write_project
from tests.support import models
from tests.support.in_process import run_here
from tests.support.repository import make_repository, without_ci


def test_a_limit_judges_the_merge_base_and_then_what_was_accepted(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first run of a project to what was accepted: the status and the reason of each step."""
    without_ci(monkeypatch)
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester, mark="max_drop_increase=1.0")
    repository = make_repository(pytester.path)
    assert _judged(pytester) == (
        "NO_BASELINE",
        "no record of this series was accepted, and there is no commit yet: make the first one and run again; "
        'accept a record of a commit that passes its other limits: pytest-quant accept --reason "..."',
    )
    repository.git("add", "conftest.py", "test_model.py")
    main = repository.commit("1")

    assert _judged(pytester) == (
        "NO_BASELINE",
        f"no record of this series was accepted, and {main[:12]} is on main, and no commit before it is here; "
        'accept a record of a commit that passes its other limits: pytest-quant accept --reason "..."',
    )
    repository.git("checkout", "-b", "topic")
    repository.commit("2")
    status, reason = _judged(pytester)
    assert status == "PASS"
    assert reason.endswith("is within 1.0 pp")

    monkeypatch.chdir(pytester.path)
    accepted = CliRunner().invoke(commands, ["accept", "--reason", "first"], catch_exceptions=False)
    assert "1 series accepted" in accepted.stdout
    file = pytester.path / NAME
    text = file.read_text()
    (drop,) = re.findall("^drop = (.*)$", text, re.MULTILINE)
    file.write_text(text.replace(f"drop = {drop}", f"drop = {float(drop) - 5.0}"))
    assert _judged(pytester) == ("FAIL", "5 pp is above 1.0 pp")
    file.write_text(text + "<<<<<<< HEAD\n")
    result, checks = run_project(pytester)
    result.assert_outcomes(errors=1)
    assert checks[0]["status"] == "ERROR"
    assert f"{NAME} is not valid" in output(result)
    assert f"at line {len(text.splitlines()) + 1}" in output(result)


def test_latency_is_judged_against_launches_that_accept_keeps(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One launch of today is the base of both limits: a thousandfold one holds; of another day it decides nothing."""
    without_ci(monkeypatch)
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester, mark="max_slowdown=1000, max_p50_increase=0.0")
    repository = make_repository(pytester.path)
    repository.git("add", "conftest.py", "test_model.py")
    repository.commit("1")
    run_here(pytester, "--quant-max-time=5")
    monkeypatch.chdir(pytester.path)
    accepted = CliRunner().invoke(commands, ["accept", "--reason", "first"], catch_exceptions=False)
    assert "1 series accepted" in accepted.stdout
    assert (pytester.path / NAME).read_text().count("started_at = ") == 1
    run_here(pytester, "--quant-max-time=5", "--quant-json=run.json")
    checks = read_checks(pytester.path / "run.json")
    slowdown, increase = (
        each for each in checks[0]["verdicts"] if each["limit"] in ("max_slowdown", "max_p50_increase")
    )
    assert slowdown["status"] == "PASS"
    assert "against 1 launch of " in slowdown["reason"]
    assert "against 1 launch of " in increase["reason"]
    assert increase["reason"].startswith("p50 increase ")

    file = pytester.path / NAME
    faster = re.sub("speedup = (.*)", lambda found: f"speedup = {100.0 * float(found[1])}", file.read_text())
    file.write_text(re.sub(r"started_at = (\W?)\d{4}", r"started_at = \g<1>2020", faster))
    run_here(pytester, "--quant-max-time=1", "--quant-json=run.json", "--quant-against=HEAD")
    slowdown = next(each for each in read_checks(pytester.path / "run.json")[0]["verdicts"] if "slow" in each["limit"])
    assert slowdown["status"] == "INCONCLUSIVE"
    assert slowdown["reason"].endswith(" see the section quant against")


def _judged(pytester: pytest.Pytester) -> tuple[str, str]:
    """Run the project and return the status of the limit and its reason."""
    result, checks = run_project(pytester)
    (outcome,) = [each for each in checks[0]["verdicts"] if each["limit"] == "max_drop_increase"]
    assert outcome["status"] == checks[0]["status"], output(result)
    return outcome["status"], outcome["reason"]
