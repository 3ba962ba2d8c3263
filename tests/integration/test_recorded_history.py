"""What an older commit wrote is read: its documents, its series and its baselines; see ``tests/recorded_history``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pytest_quant.cache import Cache
from pytest_quant.cache.entry import key_of
from pytest_quant.cli import commands
from pytest_quant.history import open_store
from pytest_quant.history.baselines.file import NAME, read_baselines
from pytest_quant.record import run_from_json, run_to_json
from tests.recorded_history import RECORDED, fields_now, import_history, recorded_documents, unpacked
from tests.unit.record.examples import RUN, a_record

DOCUMENTS = recorded_documents()
FIRST = DOCUMENTS[0]


def lost(before: object, after: object, where: str = "") -> list[str]:
    """Return the places of `before` that `after` does not have, or has with another value."""
    if isinstance(before, dict) and isinstance(after, dict):
        missing = [f"{where}.{name} is missing" for name in before.keys() - after.keys()]
        both = sorted(before.keys() & after.keys())
        return missing + [each for name in both for each in lost(before[name], after[name], f"{where}.{name}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [each for index, (old, new) in pairs for each in lost(old, new, f"{where}[{index}]")]
    return [] if before == after else [f"{where}: {before!r} became {after!r}"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=("first", "second", "topic"))
def test_no_field_of_an_old_document_is_lost(document: dict[str, Any]) -> None:
    """Read and written again, each has its value; fields that were added since may stand beside them."""
    assert lost(document, json.loads(json.dumps(run_to_json(*run_from_json(document)), allow_nan=False))) == []


def test_the_old_history_tells_its_series(tmp_path: Path) -> None:
    """The list is word for word the one that the old command printed, so that series go on under their keys."""
    history = import_history(tmp_path)
    listed = CliRunner().invoke(commands, ["history", "--series", "--json", f"--history={history}"])
    assert listed.stdout == (RECORDED / "series.jsonl").read_text("utf-8")


def test_the_old_baselines_are_the_figures_that_were_accepted() -> None:
    """By series key, with the digest of the data, and the latency with the machine that it was measured on."""
    entries = read_baselines(RECORDED / NAME)
    checks = {check["series"]: check for check in FIRST["checks"]}
    assert len(entries) == 3
    for key, entry in entries.items():
        accuracy, latency = checks[key]["accuracy"], checks[key]["latency"]
        assert (entry.commit, entry.run) == (FIRST["run"]["commit"], FIRST["run"]["id"])
        assert (entry.drop, entry.candidate_score) == (accuracy["drop"], accuracy["candidate"])
        assert entry.data == checks[key]["digests"]["data"]
        assert [each.candidate_p50_ms for each in entry.latency] == ([latency["candidate_p50_ms"]] if latency else [])
        assert all(each.identity == FIRST["run"]["environment"]["identity"] for each in entry.latency)


def test_the_old_database_is_opened_as_it_is(tmp_path: Path) -> None:
    """Runs, records and series of the file are those of its export; it takes further runs."""
    place = unpacked(tmp_path, "history.db")
    imported = import_history(tmp_path / "import")
    exports = []
    for history in (place, imported):
        lines = CliRunner().invoke(commands, ["history", "export", "-", f"--history={history}"])
        assert lines.exit_code == 0, lines.output
        exports.append([json.loads(line) for line in lines.stdout.splitlines()[1:]])
    assert exports[0] == exports[1]
    assert lost(DOCUMENTS, exports[0]) == []
    assert open_store(place).append(replace(RUN, id="20990101T000000Z-000000000000"), [a_record()])


@pytest.mark.parametrize(("name", "runs"), [("export.jsonl", 3), ("run.json", 1)])
def test_the_old_files_are_imported(tmp_path: Path, name: str, runs: int) -> None:
    """By the command, into a history that does not exist yet."""
    new = tmp_path / "new.db"
    result = CliRunner().invoke(commands, ["history", "import", str(unpacked(tmp_path, name)), f"--history={new}"])
    assert result.exit_code == 0, result.output
    stored = [each.run.id for each in open_store(new).runs()]
    assert stored[::-1] == [document["run"]["id"] for document in DOCUMENTS[:runs]]


def test_an_old_entry_of_the_cache_is_a_hit(tmp_path: Path) -> None:
    """By its ingredients, which its key is made of."""
    manifest = json.loads((RECORDED / "manifest.json").read_text("utf-8"))
    entry = tmp_path / "engine" / key_of("engine", manifest["ingredients"])
    (entry / "files").mkdir(parents=True)
    unpacked(entry, "manifest.json")
    (entry / "files" / "model.onnx").write_bytes(bytes(manifest["files"]["model.onnx"]))
    found = Cache(tmp_path).obtain("engine", manifest["slot"], manifest["ingredients"], lambda _: {})
    assert (found.status, found.facts) == ("hit", manifest["facts"])


def test_fields_are_added_with_a_default_and_none_is_removed() -> None:
    """A document of before lacks what came later; a name that is gone, or is another one now, loses what it has."""
    recorded = json.loads((RECORDED / "fields.json").read_text("utf-8"))
    now = {name: dict(listed) for name, listed in fields_now().items()}
    gone = [f"{kind}.{name}" for kind, names in recorded.items() for name in names if name not in now.get(kind, {})]
    assert gone == [], "removed or renamed: keep the name, or read the old one"
    without = [
        f"{kind}.{name}"
        for kind, listed in now.items()
        for name, has_default in listed.items()
        if kind in recorded and name not in recorded[kind] and not has_default
    ]
    assert without == [], "give it a default, and run python -m tests.recorded_history"
