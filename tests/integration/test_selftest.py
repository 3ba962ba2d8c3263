"""``pytest-quant selftest`` for real, with few launches and one small model; and what its figures do in a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from pytest_quant.backends.workload import WORKLOADS
from pytest_quant.cli import commands
from pytest_quant.cli import machine_commands as command
from pytest_quant.environment.machine import fingerprint
from pytest_quant.history import open_store
from pytest_quant.history.selftests import newest_selftest, session_noise
from pytest_quant.measure.selftest import Effort
from pytest_quant.result import Environment
from pytest_quant.spec import UNMEASURED, LatencyPlan
from tests.integration.fake_session import run_fake, run_fake_apart
from tests.integration.projects import output
from tests.unit.history.noisy import run_number, with_null

FEW = Effort(3, None, WORKLOADS[:1], LatencyPlan(min_rounds=8, max_rounds=8, min_block_s=0.001, max_warmup_s=0.05))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder to work in, and self-tests that are over in seconds."""
    monkeypatch.setattr(command, "QUICK", FEW)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_QUANT_HISTORY", raising=False)
    return tmp_path


def test_it_measures_prints_and_keeps(few: Path) -> None:
    """The page names each figure; what is kept is what checks here will allow for. As JSON in the project."""
    done = CliRunner().invoke(commands, ["selftest", "--quick", "--history", "runner.db"])
    assert done.exit_code == 0, done.output
    assert "launch 3 of 3" in done.stderr
    assert "3 of 3 launches, ort on cpu" in done.stdout
    assert "What to write into a mark" in done.stdout
    here = fingerprint().identity
    selftest = newest_selftest(few / "runner.db", here, "cpu")
    assert selftest is not None
    assert selftest.kinds[0].name == "tiny"
    assert len(selftest.kinds[0].draws) == 3
    assert session_noise(few / "runner.db", here, "cpu").freedom > UNMEASURED.freedom
    document = json.loads(CliRunner().invoke(commands, ["selftest", "--quick", "--json"]).stdout)
    assert (document["launches"], len(document["kinds"][0]["draws"])) == (3, 3)
    assert newest_selftest(few / ".quant" / "history.db", here, "cpu") is not None


LONG = """
import signal
from dataclasses import replace
from pytest_quant.backends.workload import WORKLOADS
from pytest_quant.cli import main
from pytest_quant.measure import selftest

# A shell that runs something in the background lets it ignore Ctrl-C, and its children too.
signal.signal(signal.SIGINT, signal.default_int_handler)
plan = replace(selftest.WHOLE.plan, min_rounds=8, max_rounds=8, min_block_s=0.001, max_warmup_s=0.05)
selftest.WHOLE = selftest.Effort(1000, None, WORKLOADS[:1], plan)
main()
"""


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    """It reaches the whole group, as from a terminal; the page follows, the result is kept, and no process is left."""
    command = [sys.executable, "-c", LONG, "selftest", "--history", str(tmp_path / "runner.db")]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        lines = [line for line in iter(process.stderr.readline, "") if _is_third(line, process.pid)]
        page = process.stdout.read() if process.stdout is not None else ""
    assert process.returncode == 0
    assert len(lines) == 1
    assert "of 1000 launches" in page
    selftest = newest_selftest(tmp_path / "runner.db", fingerprint().identity, "cpu")
    assert selftest is not None
    assert 3 <= selftest.launches < 1000
    _, alive = psutil.wait_procs(_living(process.pid), timeout=60)
    assert alive == []


def _living(group: int) -> list[psutil.Process]:
    """The processes of a group, without those that ended and that nobody has asked about yet."""
    result = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                result.append(process)
    return result


def _is_third(line: str, group: int) -> bool:
    """Whether it tells of the third launch; the group is then interrupted."""
    if "launch 3 of" not in line:
        return False
    os.killpg(group, signal.SIGINT)
    return True


ONE = """
@mark.quant(output="PASS")
def test_it(quant):
    plan = quant.check.latency
    with open("sd", "a") as file:
        file.write(f"{plan and plan.sessions.sd!r}\\n")

@mark.quant(output="PASS", batch_size=2)
def test_other(quant):
    test_it(quant)
"""


def _history(folder: Path) -> Path:
    """A history of this machine with 100 nulls of sessions that differ by 3 %."""
    place = folder / ".quant" / "history.db"
    here = Environment(fingerprint().identity, {})
    logs = [0.03 if index % 2 else -0.03 for index in range(100)]
    runs = [(run_number(index, environment=here), [with_null(log)]) for index, log in enumerate(logs)]
    open_store(place).append_many(runs)
    return place


def _plans(folder: Path) -> list[str]:
    return (folder / "sd").read_text().splitlines()


def test_the_plan_has_the_noise_of_the_history(pytester: pytest.Pytester) -> None:
    """As the history tells it before the run, for every check, and under xdist too."""
    place = _history(pytester.path)
    expected = session_noise(place, fingerprint().identity, "cpu").sd
    assert expected > 5 * UNMEASURED.sd
    result = run_fake_apart(pytester, ONE, "-n", "2")
    result.assert_outcomes(passed=2)
    assert _plans(pytester.path) == [repr(expected)] * 2


def test_without_a_history_the_plan_has_the_default(pytester: pytest.Pytester) -> None:
    """Nothing is read where it is turned off, or where there is no plan, and nothing is said."""
    _history(pytester.path)
    result = run_fake(pytester, ONE, "--quant-no-history")
    assert _plans(pytester.path) == [repr(UNMEASURED.sd)] * 2
    assert "noise of this runner" not in output(result)
    (pytester.path / "history.db").write_text("no database")
    result = run_fake(pytester, ONE, "--quant-no-latency", "--quant-history=history.db")
    assert _plans(pytester.path)[2:] == ["None"] * 2
    assert "noise of this runner" not in output(result)


def test_a_history_that_cannot_be_read_changes_nothing_but_a_note(pytester: pytest.Pytester) -> None:
    """Once for the process: the tests keep their outcomes."""
    (pytester.path / "history.db").write_text("no database")
    result = run_fake_apart(pytester, ONE, "--quant-history=history.db")
    result.assert_outcomes(passed=2)
    assert _plans(pytester.path) == [repr(UNMEASURED.sd)] * 2
    notes = [line for line in result.outlines if "noise of this runner" in line]
    assert len(notes) == 1, output(result)
    assert "the default of a runner that nobody measured" in notes[0]
