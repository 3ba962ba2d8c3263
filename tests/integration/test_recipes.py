"""The recipes for the hook and for other tools do what they say, with the real tools; those that are here, at least."""

from __future__ import annotations

import importlib.util
import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.projects import CONFTEST, DATA, TEST, output, run_project_apart
from tests.support import models

FIGURES = '''
def figures(record):
    """Return the figures of a check that were measured, by name."""
    found = {"passed": float(record.status == "PASS")}
    if record.accuracy is not None:
        found |= {"score": record.accuracy.candidate, "drop": record.accuracy.drop}
    if record.latency is not None:
        found |= {"speedup": record.latency.speedup, "p50_ms": record.latency.candidate_p50_ms}
    if record.coverage is not None:
        found |= {"coverage_pct": record.coverage.pct}
    return {name: value for name, value in found.items() if value is not None}
'''

TENSORBOARD = """
from datetime import datetime
from functools import cache

from tensorboardX import SummaryWriter  # or: from torch.utils.tensorboard import SummaryWriter


@cache
def writer(branch):
    return SummaryWriter(f"tensorboard/{branch}")


def pytest_quant_record(record, run):
    step = int(datetime.fromisoformat(run.started_at).timestamp())
    to = writer(run.branch or "none")
    for name, value in figures(record).items():
        to.add_scalar(f"{record.nodeid}/{name}", value, step)
    to.flush()
"""

MLFLOW = """
import mlflow


def pytest_quant_record(record, run):
    # Where it goes: $MLFLOW_TRACKING_URI, $MLFLOW_EXPERIMENT_NAME
    with mlflow.start_run(run_name=record.nodeid):
        mlflow.set_tags({"commit": run.commit or "none", "branch": run.branch or "none", "status": record.status.value})
        mlflow.log_params(
            {"model": record.model, "backend": record.backend, "precision": record.precision, "scheme": record.scheme}
        )
        mlflow.log_metrics(figures(record))
"""

WANDB = """
import wandb


def pytest_quant_record(record, run):
    # Where it goes: $WANDB_MODE=offline keeps it here, for "wandb sync"
    engine = {"model": record.model, "backend": record.backend, "precision": record.precision, "scheme": record.scheme}
    about = {"commit": run.commit, "branch": run.branch, "status": record.status.value}
    with wandb.init(project="quantization", name=record.nodeid, config=engine | about) as sent:
        sent.log(figures(record))
"""

ALLURE = """
import allure
import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":
        for name, value in report.user_properties:
            if name.startswith("quant."):
                allure.dynamic.parameter(name, value)
    return report
"""

PANDAS = """
import pandas

checks = pandas.read_csv("checks.csv", parse_dates=["run_started_at"])
main = checks[(checks.run_branch == "main") & ~checks.run_dirty]
print(main.pivot_table(index="run_started_at", columns=["nodeid", "identity"], values="speedup"))
"""

MARK = "max_drop=5.0"


def _read_tensorboard(folder: Path) -> dict[str, float]:
    """Return the scalars of every file of events: length, its checksum, the event, its checksum, and so on."""
    from tensorboardX.proto import event_pb2

    found: dict[str, float] = {}
    for file in (folder / "tensorboard").rglob("events.*"):
        content = file.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            event = event_pb2.Event.FromString(content[12 : 12 + length])
            found |= {value.tag.rpartition("/")[2]: value.simple_value for value in event.summary.value}
            content = content[16 + length :]
    return found


def _read_mlflow(folder: Path) -> dict[str, float]:
    from mlflow import MlflowClient

    client = MlflowClient(f"file://{folder / 'mlruns'}")
    (experiment,) = [one for one in client.search_experiments() if one.name == "quantization"]
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.params["backend"] == "ort"
    assert run.data.tags["status"] == "PASS"
    return dict(run.data.metrics)


def _read_wandb(folder: Path) -> dict[str, float]:
    from wandb.proto import wandb_internal_pb2

    (file,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    found = {}
    for data in _of_log(file.read_bytes()):
        for item in wandb_internal_pb2.Record.FromString(data).history.item:
            found["/".join(item.nested_key) or item.key] = json.loads(item.value_json)
    return {name: value for name, value in found.items() if not name.startswith("_")}


def _of_log(content: bytes) -> Iterator[bytes]:
    """Yield the records of a log of LevelDB: blocks of 32 kB of them, each with its checksum, length and part."""
    place, kept = 7, b""
    while place + 7 <= len(content):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        length, part = struct.unpack("<HB", content[place + 4 : place + 7])
        kept += content[place + 7 : place + 7 + length]
        place += 7 + length
        if part in (1, 4):
            yield kept
            kept = b""


def _read_allure(folder: Path) -> dict[str, float]:
    (file,) = (folder / "allure").glob("*-result.json")
    told = {one["name"]: one["value"].strip("'") for one in json.loads(file.read_text())["parameters"]}
    assert told["quant.status"] == "PASS"
    named = {"candidate": "score", "drop": "drop", "coverage_pct": "coverage_pct"}
    return {ours: float(told[f"quant.{name}"]) for name, ours in named.items()}


RECIPES: dict[str, tuple[str, Callable[[Path], dict[str, float]], str, dict[str, str], tuple[str, ...]]] = {
    "TensorBoard": (TENSORBOARD, _read_tensorboard, "tensorboardX", {}, ()),
    "MLflow": (
        MLFLOW,
        _read_mlflow,
        "mlflow",
        {
            "MLFLOW_TRACKING_URI": "file:mlruns",
            "MLFLOW_EXPERIMENT_NAME": "quantization",
            "MLFLOW_ALLOW_FILE_STORE": "1",
        },
        (),
    ),
    "Weights and Biases": (WANDB, _read_wandb, "wandb", {"WANDB_MODE": "offline"}, ()),
    "Allure": (ALLURE, _read_allure, "allure_pytest", {}, ("--alluredir=allure",)),
}
"""For each tool its recipe, what reads back what it kept, the module that it needs, its environment and options."""


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tool reports home about its use."""
    for name in ("WANDB_ERROR_REPORTING", "MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK", "WANDB_DISABLE_GIT"):
        monkeypatch.setenv(name, "false" if name == "WANDB_ERROR_REPORTING" else "true")
    monkeypatch.setenv("WANDB_SILENT", "true")


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("tool", RECIPES)
def test_a_recipe_sends_the_figures(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    """The tool has the numbers of the record, and the run says nothing of it."""
    recipe, read, module, environ, options = RECIPES[tool]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    models.select_first(pytester.path / "model.onnx")
    pytester.makeconftest(CONFTEST.format(model="model.onnx", data=DATA) + FIGURES + recipe)
    pytester.makepyfile(test_model=TEST.format(mark=MARK, body="pass"))
    result, (check,) = run_project_apart(pytester, *options)
    result.assert_outcomes(passed=1)
    assert "pytest_quant_record failed" not in output(result)
    figures = {"score": check["accuracy"]["candidate"], "drop": check["accuracy"]["drop"]}
    figures["coverage_pct"] = check["coverage"]["pct"]
    found = read(pytester.path)
    # TensorBoard keeps single precision.
    assert {name: found[name] for name in figures} == pytest.approx(figures, rel=1e-6)


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_pandas_reads_the_table(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dates are dates, numbers numbers, and a pivot is a line for each run."""
    from pytest_quant.history import open_store
    from tests.unit.record.examples import RUN, a_record

    open_store(pytester.path / ".quant" / "history.db").append(RUN, [a_record()])
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
    export = (
        "import sys; sys.argv[1:] = ['history', 'export', 'checks.csv']\nfrom pytest_quant.cli import main\nmain()\n"
    )
    assert pytester.runpython_c(export).ret == 0
    result = pytester.runpython_c(PANDAS)
    assert result.ret == 0, output(result)
    result.stdout.fnmatch_lines(["*2026-01-02 03:04:05+00:00*1.9475"])


def test_every_recipe_is_python() -> None:
    """Those whose tool is not here are compiled at least."""
    for text in (FIGURES, TENSORBOARD, MLFLOW, WANDB, ALLURE, PANDAS):
        compile(text, "recipe", "exec")
