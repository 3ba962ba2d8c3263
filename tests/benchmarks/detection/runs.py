"""Whole runs of pytest: `--quant-launches auto`, and A/A on more workers of xdist than there are processors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_quant.result import Status
from tests.benchmarks.detection import more_work
from tests.benchmarks.detection.arms import Arm
from tests.benchmarks.detection.bursts import load
from tests.benchmarks.detection.ledger import Found, Ledger
from tests.benchmarks.detection.models import WRITERS, model_file
from tests.benchmarks.detection.rates import having
from tests.benchmarks.detection.table import Row, at_least, at_most
from tests.support.third_party import register_backend

RUNS = {("quiet", 0.0): 15, ("bursty", 0.0): 15, ("quiet", 5.0): 20, ("bursty", 5.0): 15}
"""Of pytest with launches as they are needed, each with all models, by load and percent more work."""

ON_WORKERS, WORKERS, COPIES = 50, 4, 2
"""Runs on workers of xdist beside our load, with so many checks of each model."""

FALSE_AT_MOST_PCT, CAUGHT_AT_LEAST_PCT = 1.0, 95.0
_ROOT = Path(__file__).parents[3]
_HANGS_S = 900.0

CONFTEST = """
from pathlib import Path

import numpy as np
import pytest

from pytest_quant import Dataset, Model
from tests.benchmarks.detection.models import feeds_of

MODELS = Path({folder!r})


@pytest.fixture
def quant_model(request):
    name = request.node.originalname.removeprefix("test_")
    return Model.from_onnx(MODELS / f"{{name}}-0.onnx", name=name)


@pytest.fixture
def quant_data(request):
    feeds = feeds_of(request.node.originalname.removeprefix("test_"))
    return Dataset.from_arrays({{name: np.repeat(array, 2, axis=0) for name, array in feeds.items()}})
"""
TEST = """

@pytest.mark.parametrize("copy", range({copies}))
@pytest.mark.quant(backend={backend!r}, reference="ort", precision="fp32", min_speedup=1 / 1.03)
def test_{name}(copy):
    pass
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """A run of pytest: beside which load, with how much more work, how many checks of which models, and options."""

    load: str
    more_pct: float
    copies: int
    options: tuple[str, ...]
    models: tuple[str, ...] = tuple(WRITERS)


def trial(folder: Path, kind: Kind, seed: int) -> Found:
    """Run pytest once, and return what became of each check, by the name of its model."""
    for name in kind.models:
        for pct in (0.0, more_work.MORE_PCT):
            model_file(folder, name, pct)
    backend = more_work.NAME if kind.more_pct else "ort"
    with tempfile.TemporaryDirectory() as place:
        project, packages = Path(place, "project"), Path(place, "packages")
        project.mkdir()
        packages.mkdir()
        register_backend(packages, more_work.NAME, f"{more_work.__name__}:{more_work.MoreWork.__name__}")
        (project / "conftest.py").write_text(CONFTEST.format(folder=str(folder)), "utf-8")
        tests = (TEST.format(backend=backend, name=name, copies=kind.copies) for name in kind.models)
        (project / "test_models.py").write_text("import pytest\n" + "".join(tests), "utf-8")
        with load(kind.load, seed):
            return _run(project, packages, folder, kind)


def _run(project: Path, packages: Path, folder: Path, kind: Kind) -> Found:
    written = project / "found.json"
    plugins = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", f"--rootdir={project}")
    places = (f"--quant-history={project / 'history.db'}", f"--quant-cache={folder / 'pytest-cache'}")
    options = ("--quant-diagnose-time=0", f"--quant-json={written}", *kind.options)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, *places, *options, str(project)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(packages), str(_ROOT)])},
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        timeout=_HANGS_S,
    )
    run_s = time.monotonic() - began
    if not written.exists():
        raise RuntimeError(f"pytest did not run:\n{done.stdout}{done.stderr}")
    checks = json.loads(written.read_text("utf-8"))["checks"]
    result = {
        name: [
            {
                "status": check["status"],
                "launches": 1 + len(check["latency"].get("launches") or ()),
                "run_s": run_s,
            }
            for check in checks
            if check["model"] == name and check["verdicts"]
        ]
        for name in kind.models
    }
    if any(len(of_one) != kind.copies for of_one in result.values()):
        raise RuntimeError(f"pytest did not measure every model:\n{done.stdout}{done.stderr}")
    return result


def arms(folder: Path) -> list[Arm]:
    """One for each load and size of a slow-down, and one on workers."""
    as_needed = [
        Arm(_key(load, pct), wanted, partial(trial, folder, Kind(load, pct, 1, ("--quant-launches=auto",))))
        for (load, pct), wanted in RUNS.items()
    ]
    on_workers = Kind("bursty", 0.0, COPIES, ("-n", str(WORKERS)))
    return [*as_needed, Arm(_WORKERS, ON_WORKERS, partial(trial, folder, on_workers))]


_WORKERS = "on workers"


def _key(load: str, more_pct: float) -> str:
    return f"auto {load} +{more_pct:g}"


def rows(ledger: Ledger) -> Iterator[Row]:
    """One for each load and size of a slow-down."""
    for beside, pct in RUNS:
        checks = _checks(ledger, _key(beside, pct))
        what = f"+{pct:g} % at a limit of 3 %" if pct else "A/A"
        judged = (
            partial(at_least, limit_pct=CAUGHT_AT_LEAST_PCT) if pct else partial(at_most, limit_pct=FALSE_AT_MOST_PCT)
        )
        yield judged(
            f"`--quant-launches auto`, {what}, {beside}: FAIL", having(checks, Status.FAIL), more=_launches(checks)
        )
    checks, runs = _checks(ledger, _WORKERS), len(ledger.trials(_WORKERS))
    failed = having(checks, Status.FAIL)
    yield Row(
        f"`pytest -n {WORKERS}` on {os.cpu_count()} processors, A/A, bursty: FAIL",
        f"none in {ON_WORKERS} runs",
        f"{failed}{_launches(checks)}; {runs} runs" if checks else "not run",
        failed.hits == 0 if checks else None,
    )


def _checks(ledger: Ledger, arm: str) -> list[Found]:
    result = (each[name] for each in ledger.trials(arm) for name in WRITERS)
    return [check for checks in result if isinstance(checks, list) for check in checks]


def _launches(checks: list[Found]) -> str:
    if not checks:
        return ""
    launches = sum(int(str(check["launches"])) for check in checks) / len(checks)
    return f"; PASS {having(checks, Status.PASS).pct:.0f} %; {launches:.1f} launches on average"
