"""What an older commit wrote is read: its documents, its series and its baselines; see ``tests/recorded_history``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pytest_quant.cli import commands
from pytest_quant.history.baselines.file import NAME, read_baselines
from pytest_quant.record import run_from_json, run_to_json
from tests.recorded_history import RECORDED, import_history, recorded_documents

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
    assert len(entries) == 7
    for key, entry in entries.items():
        accuracy, (latency,) = checks[key]["accuracy"], entry.latency
        assert (entry.commit, entry.run) == (FIRST["run"]["commit"], FIRST["run"]["id"])
        assert (entry.drop, entry.candidate_score) == (accuracy["drop"], accuracy["candidate"])
        assert entry.data == checks[key]["digests"]["data"]
        assert latency.identity == FIRST["run"]["environment"]["identity"]
        assert latency.candidate_p50_ms == checks[key]["latency"]["candidate_p50_ms"]
