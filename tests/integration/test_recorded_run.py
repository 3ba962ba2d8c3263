"""The project that commit b2e6abf ran is run again, on the history and the baselines that commit left."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_quant.history import open_store
from pytest_quant.history.baselines.file import NAME, read_baselines
from tests.recorded_history import RECORDED, clone_project, import_history, recorded_documents
from tests.support.example import ExampleRun, run_example

ACCEPTED_DROP = -0.25
"""Put in the place of the drops that were accepted: those of the merge base are 0 too, and would serve as well."""

NOT_RUN = ("test_torch.py", "test_others.py::test_elsewhere")
"""What takes long, and what runs on a GPU only, where its series would name the metric."""

SECOND = recorded_documents()[1]


@dataclass(frozen=True, slots=True)
class Again:
    """The run of today's code."""

    project: Path
    run: ExampleRun


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Again:
    """The second commit's run once more, with other accepted drops; latencies are of no interest."""
    for module in ("onnxruntime", "openvino", "nncf"):
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("again")
    project = clone_project(folder / "project")
    (project / ".quant").mkdir()
    import_history(project / ".quant")
    baselines = project / NAME
    baselines.write_text(baselines.read_text("utf-8").replace("\ndrop = 0.0\n", f"\ndrop = {ACCEPTED_DROP}\n"), "utf-8")
    left_out = (f"--deselect={test}" for test in NOT_RUN)
    run = run_example(project, "--quant-no-latency", *left_out, locks=folder)
    return Again(project, run)


def test_series_have_the_keys_they_had(again: Again) -> None:
    """Of every test that is run, by its node id."""
    recorded = {check["nodeid"]: check["series"] for check in SECOND["checks"]}
    run = {name: series for name, series in recorded.items() if not name.startswith(NOT_RUN)}
    assert {name: check["series"] for name, check in again.run.checks.items()} == run


def test_the_old_history_goes_on(again: Again) -> None:
    """The new run is the fourth, and each of its checks the fourth point of an old series."""
    store = open_store(str(again.project / ".quant" / "history.db"))
    lines = (RECORDED / "series.jsonl").read_text("utf-8").splitlines()
    old = {series["key"]: series["n_points"] for series in map(json.loads, lines)}
    new = [check["series"] for check in again.run.document["checks"]]
    assert len(store.runs()) == 4
    assert {series.key: series.n_points for series in store.series()} == {
        key: n + new.count(key) for key, n in old.items()
    }


def test_the_old_baselines_judge(again: Again) -> None:
    """The limit's figure is the drop of today less the accepted one, on data that have the digest they had."""
    entries = read_baselines(again.project / NAME)
    for name in ("static", "dynamic"):
        check = again.run.checks[f"test_ort.py::test_schemes[ort-int8-{name}]"]
        (verdict,) = [one for one in check["verdicts"] if one["limit"] == "max_drop_increase"]
        assert verdict["observed"] == pytest.approx(check["accuracy"]["drop"] - ACCEPTED_DROP)
        assert check["digests"]["data"] == entries[check["series"]].data
