"""What an error says next is done, and then it works: baselines, addresses, extras and scores."""

from __future__ import annotations

import shlex
import subprocess
from importlib.metadata import requires
from pathlib import Path

import pytest

from pytest_quant.data.score_pairs import read_scores
from pytest_quant.errors import HistoryError, UsageError
from pytest_quant.history import INSTALL, open_store
from pytest_quant.history.baselines.file import NAME, read_baselines, write_baselines
from pytest_quant.spec import Scores
from tests.recorded_history import RECORDED
from tests.support.repository import make_repository


def test_a_damaged_baseline_file_comes_back_from_version_control(tmp_path: Path) -> None:
    """By the command of the message, in the folder of the file."""
    repository = make_repository(tmp_path)
    file = tmp_path / NAME
    file.write_bytes((RECORDED / NAME).read_bytes())
    repository.git("add", NAME)
    repository.git("commit", "-qm", "accepted")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(HistoryError, match="cannot be read") as error:
        read_baselines(file)
    command = (error.value.fix or "").rpartition(": ")[2]
    subprocess.run(shlex.split(command), cwd=tmp_path, check=True)
    assert len(read_baselines(file)) == 3


def test_a_read_only_baseline_file_is_written_after_the_command_of_its_message(tmp_path: Path) -> None:
    """Its rights are what forbids it, whatever those of its folder are."""
    file = tmp_path / f"a b {NAME}"
    entries = read_baselines(RECORDED / NAME).values()
    write_baselines(file, entries)
    file.chmod(0o444)
    with pytest.raises(HistoryError, match="cannot be written") as error:
        write_baselines(file, [])
    subprocess.run(shlex.split((error.value.fix or "").partition(", or")[0]), check=True)
    write_baselines(file, [])
    assert read_baselines(file) == {}


def test_an_at_sign_that_is_written_as_told_is_no_second_one() -> None:
    """Nothing answers there, which is the next message."""
    address = "postgresql://me:p@ss@127.0.0.1:9/x?connect_timeout=2"
    with pytest.raises(HistoryError, match="more than one @") as error:
        open_store(address)
    assert "write %40" in (error.value.fix or "")
    with pytest.raises(HistoryError, match="cannot be opened"):
        open_store(address.replace("p@ss", "p%40ss"))


def test_the_extra_that_is_to_be_installed_brings_the_library() -> None:
    """It is one of ours, and has what is missing."""
    extra = INSTALL.partition("[")[2].partition("]")[0]
    assert any(
        line.startswith("sqlalchemy") and f'"{extra}"' in line.replace("'", '"')
        for line in requires("pytest-quant") or ()
    )


def test_scores_with_the_candidate_that_was_asked_for_are_read(tmp_path: Path) -> None:
    """One side alone is the candidate's."""
    file = tmp_path / "int4.jsonl"
    file.write_text('{"id": 1, "score": 1.0}\n')
    with pytest.raises(UsageError, match="there is no candidate") as error:
        Scores.from_files(file)
    assert "candidate=" in (error.value.fix or "")
    assert read_scores(Scores.from_files(candidate=file))[0].candidate.tolist() == [[1.0]]
