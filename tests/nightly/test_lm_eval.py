"""What ``lm_eval --log_samples`` writes of a model is judged as it is: broken, too noisy to tell, or the same."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.integration.projects import read_checks
from tests.nightly.adding_model import GREEDY, SAMPLED, make_model, round_weights, run_lm_eval, write_tasks
from tests.support.example import ROOT, environment

NEEDED = ("lm_eval", "transformers", "accelerate")
PROJECT = """
import pytest
import pytest_quant


@pytest.fixture
def arithmetic():
    return pytest_quant.Scores.from_lm_eval(
        reference={reference!r}, candidate={candidate!r}, task={task!r}, metric="exact_match", deterministic={same!r}
    )


@pytest.mark.quant(scores="arithmetic", max_drop=1.0)
def test_arithmetic(): ...
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what ``lm_eval`` logged: of a model, of the same one at another seed, and of a broken one."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        pytest.skip(f"{', '.join(missing)} not installed: pip install {' '.join(NEEDED)}")
    folder = tmp_path_factory.mktemp("lm_eval")
    make_model(folder / "fp32")
    round_weights(folder / "fp32", folder / "int2", bits=2)
    write_tasks(folder / "tasks")
    for name, model, seed in (("fp32", "fp32", 1), ("again", "fp32", 2), ("int2", "int2", 1)):
        run_lm_eval(folder / model, folder / "tasks", folder / "runs" / name, seed=seed)
    return folder / "runs"


def judged(
    folder: Path, runs: Path, candidate: str, task: str, *, same: bool = False
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run the project of a user who compares a run with that of the model; return the end and its check."""
    paths = {"reference": str(runs / "fp32"), "candidate": str(runs / candidate)}
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_arithmetic.py").write_text(PROJECT.format(task=task, same=same, **paths))
    result = subprocess.run(
        (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--quant-json=run.json"),
        cwd=folder,
        env=environment() | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    checks = read_checks(folder / "run.json")
    assert len(checks) == 1, result.stdout
    return result, checks[0]


def right_pct(runs: Path, name: str, task: str) -> float:
    """Return what ``lm_eval`` itself says of a task."""
    (file,) = (runs / name).rglob("results_*.json")
    return 100.0 * float(json.loads(file.read_text("utf-8"))["results"][task]["exact_match,none"])


def test_a_broken_candidate_fails(runs: Path, tmp_path: Path) -> None:
    """Weights of three values answer wrongly; the drop is the difference of the results that ``lm_eval`` printed."""
    result, check = judged(tmp_path, runs, "int2", SAMPLED)
    assert result.returncode == 1, result.stdout
    assert check["status"] == "FAIL", result.stdout
    drop = right_pct(runs, "fp32", SAMPLED) - right_pct(runs, "int2", SAMPLED)
    assert f"max_drop {drop:g} > 1.0 pp" in result.stdout


def test_the_same_model_at_another_seed_cannot_be_told(runs: Path, tmp_path: Path) -> None:
    """Forty sampled answers do not show whether one in a hundred was lost: neither a pass nor a failure."""
    result, check = judged(tmp_path, runs, "again", SAMPLED)
    assert result.returncode == 0, result.stdout
    assert check["status"] == "INCONCLUSIVE", result.stdout


def test_the_same_greedy_answers_pass(runs: Path, tmp_path: Path) -> None:
    """Greedy answers are said to be the same each time: a drop of zero on these questions is a fact."""
    result, check = judged(tmp_path, runs, "again", GREEDY, same=True)
    assert result.returncode == 0, result.stdout
    assert check["status"] == "PASS", result.stdout
