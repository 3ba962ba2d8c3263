"""A damaged cache costs time, one that cannot be written is an error; a full history costs no verdict."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pytest_quant.cli import commands
from tests.integration.projects import output, read_checks, run_project, write_project
from tests.support import models
from tests.support.in_process import run_here


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with a good model and good data."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester)
    return pytester


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system with no space left: chmod forbids root nothing."""
    folder = tmp_path / "full"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], check=False)  # noqa: S607
    if mounted.returncode != 0:
        pytest.skip("this process may not mount a tmpfs")
    filler = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(filler, bytes(512))
    except OSError:
        pass
    finally:
        os.close(filler)
    yield folder
    # This process may have files open on it.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607


def test_the_tests_after_a_cleaning_are_measured(project: pytest.Pytester) -> None:
    """``git clean -xfd`` in mid run takes the cache, its parent and the history; the rest is built again and kept."""
    test = "@pytest.mark.quant(max_drop=5.0)\ndef test_{}(): {}\n\n\n"
    bodies = {"first": "shutil.rmtree('.quant')", "second": "pass"}
    (project.path / "test_model.py").write_text(
        "import shutil\nimport pytest\n\n\n" + "".join(map(test.format, bodies, bodies.values()))
    )
    result, checks = run_project(project)
    result.assert_outcomes(passed=2)
    assert [(check["status"], check["cache"]["engine"]) for check in checks] == [("PASS", "built")] * 2
    listed = CliRunner().invoke(commands, ["history", f"--history={project.path / '.quant' / 'history.db'}", "--json"])
    assert listed.exit_code == 0
    assert len(json.loads(listed.stdout)["checks"]) == 2


def test_a_full_cache_disk_is_an_error(project: pytest.Pytester, full_disk: Path) -> None:
    """It is told that there is no space left."""
    result, (check,) = run_project(project, f"--quant-cache={full_disk / 'cache'}")
    result.assert_outcomes(errors=1)
    assert check["status"] == "ERROR"
    assert "No space left on device" in output(result)


def test_a_document_on_a_full_disk_is_written_when_there_is_room(project: pytest.Pytester, full_disk: Path) -> None:
    """The run fails with the step, which is followed."""
    document = f"--quant-json={full_disk / 'run.json'}"
    result = run_here(project, "--quant-no-latency", document)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "next: make room on the disk, or use another disk" in output(result)
    (full_disk / "filler").unlink()
    result = run_here(project, "--quant-no-latency", document)
    assert result.ret == pytest.ExitCode.OK
    assert [check["status"] for check in read_checks(full_disk / "run.json")] == ["PASS"]


def test_a_full_history_disk_keeps_outcomes_and_is_no_success(project: pytest.Pytester, full_disk: Path) -> None:
    """No test fails, and the exit code says that nothing has the records; the file that is named next is imported."""
    history = f"--quant-history={full_disk / 'history.db'}"
    result = run_here(project, "--quant-no-latency", history)
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "the records of this run are in no history; --quant-json=FILE on another disk keeps them" in output(result)
    result, (check,) = run_project(project, history)
    assert (check["status"], result.ret) == ("PASS", pytest.ExitCode.OK)
    place = project.path / "other.db"
    imported = CliRunner().invoke(commands, ["history", "import", f"{project.path}/run.json", f"--history={place}"])
    assert imported.exit_code == 0, imported.output
