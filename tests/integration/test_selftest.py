"""``pytest-quant selftest`` for real, with few processes and one small model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pytest_quant.backends.workload import WORKLOADS
from pytest_quant.cli import commands
from pytest_quant.environment import fingerprint
from pytest_quant.history.runner_noise import session_noise
from pytest_quant.history.selftests import newest_selftest
from pytest_quant.measure import selftest
from pytest_quant.measure.selftest import Effort
from pytest_quant.spec import LatencyPlan

FEW = Effort(3, None, WORKLOADS[:1], LatencyPlan(min_rounds=8, max_rounds=8, min_block_s=0.001, max_warmup_s=0.05))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder to work in, and self-tests that are over in seconds."""
    monkeypatch.setattr(selftest, "QUICK", FEW)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_QUANT_HISTORY", raising=False)
    return tmp_path


def test_it_measures_prints_and_keeps(few: Path) -> None:
    """The page names each figure; what is kept is what checks on this machine will allow for."""
    done = CliRunner().invoke(commands, ["selftest", "--quick", "--history", "runner.db"])
    assert done.exit_code == 0, done.output
    assert "process 3 of 3" in done.stderr
    assert "3 of 3 fresh processes, ort on cpu" in done.stdout
    assert "What to write into a mark" in done.stdout
    here = fingerprint().identity
    kept = newest_selftest(few / "runner.db", here, "cpu")
    assert kept is not None
    assert kept.kinds[0].name == "tiny"
    assert kept.kinds[0].rounds == 8
    assert len(kept.kinds[0].draws) == 6
    assert 0.005 < kept.kinds[0].reference_p50_ms < 5.0
    noise = session_noise(few / "runner.db", here, "cpu")
    assert noise.selftest == kept
    assert noise.freedom > 4.0


def test_json_is_one_document(few: Path) -> None:
    """With every draw; the history is the project's where none is named."""
    done = CliRunner().invoke(commands, ["selftest", "--quick", "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["processes"] == 3
    assert len(document["kinds"][0]["draws"]) == 6
    assert document["kinds"][0]["slowdowns"][-1]["is_planted"] is True
    assert newest_selftest(few / ".quant" / "history.db", fingerprint().identity, "cpu") is not None
