"""What commit b2e6abf wrote is read: its documents, its export, its branch and its baselines."""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner

from pytest_quant.cli import commands
from pytest_quant.history import open_store
from pytest_quant.history.baselines.file import NAME, read_baselines
from pytest_quant.record import run_from_json, run_to_json
from tests.recorded_history import (
    RECORDED,
    clone_project,
    import_history,
    recorded_comparison,
    recorded_documents,
)

DOCUMENTS = recorded_documents()
IDS = [document["run"]["id"] for document in DOCUMENTS]
FIRST, SECOND, TOPIC = DOCUMENTS


def lost(before: object, after: object, where: str = "") -> list[str]:
    """Return the places of `before` that `after` does not have, or has with another value."""
    if isinstance(before, dict) and isinstance(after, dict):
        missing = [f"{where}.{name} is missing" for name in before.keys() - after.keys()]
        both = sorted(before.keys() & after.keys())
        return missing + [one for name in both for one in lost(before[name], after[name], f"{where}.{name}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [one for index, (old, new) in pairs for one in lost(old, new, f"{where}[{index}]")]
    return [] if before == after else [f"{where}: {before!r} became {after!r}"]


def run(*arguments: str, history: Path, exit_code: int = 0) -> str:
    """Run the command ``pytest-quant`` in this process and return what it printed."""
    result = CliRunner().invoke(commands, [*arguments, f"--history={history}"], catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    return result.stdout


def lines(text: str) -> list[Any]:
    """Return the JSON values of the lines."""
    return [json.loads(line) for line in text.splitlines()]


def nothing_lost(found: Sequence[dict[str, Any]]) -> None:
    """Check that `found` are the recorded documents in any order, with every field as it was."""
    by_id = {document["run"]["id"]: document for document in found}
    assert sorted(by_id) == sorted(IDS)
    assert [one for document in DOCUMENTS for one in lost(document, by_id[document["run"]["id"]])] == []


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """The old runs in a new database."""
    return import_history(tmp_path)


def test_the_recorded_runs_show_what_they_are_meant_to() -> None:
    """Otherwise the tests below would read little: every status, a latency, several engines and metrics, no labels."""
    checks = [check for document in DOCUMENTS for check in document["checks"]]
    assert {check["status"] for check in checks} == {"PASS", "FAIL", "NO_BASELINE", "UNAVAILABLE", "ERROR"}
    assert {(check["backend"], check["scheme"]) for check in checks if check["accuracy"]} == {
        *(("ort", scheme) for scheme in ("static", "dynamic", "weight-only")),
        *(("openvino", scheme) for scheme in (None, "static")),
        *(("plain", "static"), ("torch", "dynamic")),
    }
    assert {check["metric"] for check in checks} == {"top1", "margin", None}
    assert any(check["latency"] and check["latency"]["speedup"] for check in checks)
    assert [document["run"]["branch"] for document in DOCUMENTS] == ["main", "main", "topic"]
    assert json.loads((RECORDED / "run.json").read_text("utf-8")) == FIRST


@pytest.mark.parametrize("document", DOCUMENTS, ids=("first", "second", "topic"))
def test_an_old_document_is_what_the_schema_describes(document: dict[str, Any]) -> None:
    """What was added since is no reason to refuse it: the number of the schema is the same."""
    schema = json.loads(files("pytest_quant").joinpath("record_schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)


@pytest.mark.parametrize("document", DOCUMENTS, ids=("first", "second", "topic"))
def test_no_field_of_an_old_document_is_lost(document: dict[str, Any]) -> None:
    """Read and written again, each has its value; fields that were added since may stand beside them."""
    assert lost(document, json.loads(json.dumps(run_to_json(*run_from_json(document)), allow_nan=False))) == []


def test_the_old_history_tells_its_runs(history: Path) -> None:
    """Every field of every record; and the table of runs their commits and how many checks have which status."""
    nothing_lost(lines(run("history", "--json", history=history)))
    table = run("history", history=history).splitlines()[1:]
    assert [line.split()[0] for line in table] == IDS[::-1]
    for line, document in zip(table, DOCUMENTS[::-1], strict=True):
        statuses = [check["status"] for check in document["checks"]]
        assert document["run"]["commit"][:12] in line
        assert all(f"{statuses.count(status)} {status}" in line for status in statuses)


def test_the_old_history_tells_its_series(history: Path) -> None:
    """The list is word for word the one that the old command printed; a run's table names each of its tests."""
    assert run("history", "--series", "--json", history=history) == (RECORDED / "series.jsonl").read_text("utf-8")
    shown = run("history", IDS[0], history=history)
    assert all(name in shown for name in ("test_weights", "test_margin", "test_openvino", "test_elsewhere"))


def test_the_old_history_tells_how_a_figure_changed(history: Path) -> None:
    """The points of each series are the figures of the documents, with the commits they are from."""
    store = open_store(str(history))
    for series in store.series():
        expected = [
            (document["run"]["commit"], check["status"], check["accuracy"] and check["accuracy"]["drop"])
            for document in DOCUMENTS
            for check in document["checks"]
            if check["series"] == series.key
        ]
        assert [(one.commit, one.status.value, one.drop) for one in store.points(series.key)] == expected


def test_the_old_history_compares_as_it_did(history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss that the branch brought, and all else that the old command said about the two commits.

    Only the p of a drop whose samples cannot be paired is new, and so is their number of tests, and what a latency says
    about days.
    """
    monkeypatch.chdir(clone_project(tmp_path / "project"))
    commits = (FIRST["run"]["commit"], TOPIC["run"]["commit"])
    comparison = json.loads(run("compare", *commits, "--json", history=history, exit_code=1))
    before = recorded_comparison()
    for one in comparison["rows"]:
        one["notes"] = [note for note in one["notes"] if "% are assumed" not in note]
    assert lost(before, comparison | {"family": 4, "rows": [before["rows"][0], *comparison["rows"][1:]]}) == []
    tested = comparison["rows"][0]
    assert (comparison["family"], tested["quantity"]) == (5, "drop")
    assert lost(before["rows"][0], {**tested, "p": None, "p_adjusted": None}) == []


def test_the_old_stream_and_document_are_imported(tmp_path: Path) -> None:
    """Each file by itself; a run that both have is known the second time."""
    stream, target = tmp_path / "export.jsonl", tmp_path / "new.db"
    stream.write_bytes(gzip.decompress((RECORDED / "export.jsonl.gz").read_bytes()))
    assert "1 of 1 runs" in run("history", "import", str(RECORDED / "run.json"), history=target)
    assert "2 of 3 runs" in run("history", "import", str(stream), history=target)
    nothing_lost(lines(run("history", "--json", history=target)))


def test_the_old_branch_of_the_remote_is_pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the old command pushed, out of the project's repository."""
    monkeypatch.chdir(clone_project(tmp_path / "project"))
    target = tmp_path / "new.db"
    assert "3 runs added" in run("history", "pull", history=target)
    nothing_lost(lines(run("history", "--json", history=target)))


def test_the_old_baselines_are_the_figures_that_were_accepted() -> None:
    """By series key, with the digest of the data, and the latency with the machine that it was measured on."""
    entries = read_baselines(RECORDED / NAME)
    checks = {check["series"]: check for check in FIRST["checks"]}
    assert len(entries) == 7
    assert entries.keys() <= checks.keys()
    for key, entry in entries.items():
        accuracy, (latency,) = checks[key]["accuracy"], entry.latency
        assert (entry.commit, entry.run) == (FIRST["run"]["commit"], FIRST["run"]["id"])
        assert (entry.drop, entry.candidate_score) == (accuracy["drop"], accuracy["candidate"])
        assert entry.data == checks[key]["digests"]["data"]
        assert latency.identity == FIRST["run"]["environment"]["identity"]
        assert latency.candidate_p50_ms == checks[key]["latency"]["candidate_p50_ms"]


def test_accepting_the_old_records_again_changes_nothing_but_the_time(
    history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command writes the same values from the same records, but for when it was asked to, and those added since."""
    project = clone_project(tmp_path / "project")
    monkeypatch.chdir(project)
    chosen = [f"--series={entry.series.test}" for entry in read_baselines(RECORDED / NAME).values()]
    run("accept", FIRST["run"]["id"], "--reason", "the first model", *chosen, history=history)
    old, new = (tomllib.loads((folder / NAME).read_text("utf-8")) for folder in (RECORDED, project))
    differing = lost(old, new)
    assert len(differing) == len(chosen)
    assert all(place.partition(": ")[0].endswith(".accepted_at") for place in differing)
