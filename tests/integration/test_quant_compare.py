"""A run can be compared with the merge base at its end. The session is a fake."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.fake_session import CONFTEST, PLUGIN, REPOSITORY, run_fake, run_fake_apart
from tests.integration.projects import output
from tests.support.repository import ScratchRepository, make_repository, without_ci

TWO = """
@mark.quant(output="PASS")
def test_stays(): pass

@mark.quant(output="PASS")
def test_goes(): pass
"""
ONE = TWO.split("\n\n")[0] + "\n"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose ``main`` has records of two tests, on a branch of one more commit."""
    made = make_repository(tmp_path_factory.mktemp("recorded"))
    (made.path / "conftest.py").write_text(CONFTEST)
    (made.path / "test_it.py").write_text(f"import pytest\nfrom pytest import mark\n{TWO}")
    made.commit("1")
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=made.path, env=environment, capture_output=True, text=True, check=True)
    assert "quant compare" not in done.stdout
    made.git("checkout", "-b", "topic")
    made.commit("2")
    return made.path


@pytest.fixture
def scratch(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, recorded: Path) -> ScratchRepository:
    """That project, in the folder of the test."""
    without_ci(monkeypatch)
    shutil.copytree(recorded, pytester.path, dirs_exist_ok=True)
    return ScratchRepository(pytester.path)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_nothing_changed(pytester: pytest.Pytester, scratch: ScratchRepository, workers: str) -> None:
    """The section stands below ours, names the base, and the run passes; under xdist, too."""
    result = run_fake_apart(pytester, TWO, "--quant-compare", "-n", workers)
    assert result.ret == pytest.ExitCode.OK, output(result)
    fork = scratch.git("rev-parse", "main")
    result.stdout.fnmatch_lines(["*= quant =*", "*- quant compare -*", f"base {fork[:12]}: merge base with main"])


def test_a_removed_test_fails_the_run(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """Every test that is there passes, and still the exit code is 1."""
    result = run_fake(pytester, ONE, "--quant-compare")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "--quant-compare: 1 tests of the base are gone" in output(result)


def test_a_run_that_stopped_early_removed_nothing(pytester: pytest.Pytester, scratch: ScratchRepository) -> None:
    """Under -x the tests after the first failure did not run."""
    source = TWO.replace('output="PASS")\ndef test_stays', 'output="FAIL")\ndef test_stays')
    result = run_fake(pytester, source, "--quant-compare", "-x")
    assert "not every test ran" in output(result)
    assert "are gone" not in output(result)
