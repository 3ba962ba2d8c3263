"""The document of a run is what the shipped schema describes, and says where its code is from and to go."""

from __future__ import annotations

import copy
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings

from pytest_quant.errors import HistoryError
from pytest_quant.record import Run, run_from_json, run_to_json, start_run
from tests.support.repository import make_repository, without_ci
from tests.unit.record.examples import RUN, a_pass, a_record, unavailable
from tests.unit.record.strategies import runs

_SCHEMA = json.loads(files("pytest_quant").joinpath("record_schema.json").read_text(encoding="utf-8"))
_VALIDATOR = jsonschema.Draft202012Validator(_SCHEMA)


def _document() -> Any:
    return json.loads(json.dumps(run_to_json(RUN, [a_record(), a_pass(), unavailable()]), allow_nan=False))


def test_a_run_without_checks_has_an_empty_list() -> None:
    """Not null, and not left out."""
    document = run_to_json(RUN, [])
    assert document["checks"] == []
    _VALIDATOR.validate(document)


def test_every_written_field_is_described() -> None:
    """A field that the schema does not mention would be undocumented."""
    closed = copy.deepcopy(_SCHEMA)

    def close(node: Any) -> None:
        if isinstance(node, dict):
            if "properties" in node:
                node["additionalProperties"] = False
            for child in node.values():
                close(child)

    close(closed)
    jsonschema.Draft202012Validator(closed).validate(_document())


@pytest.mark.parametrize(
    "path",
    [("run", "id"), ("checks", 0, "accuracy", "drop"), ("checks", 0, "latency", "speedup"), ("checks", 0, "status")],
)
def test_the_schema_refuses_a_document_without_a_field(path: tuple[str | int, ...]) -> None:
    """A figure that was not measured is null, and never missing."""
    document = _document()
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    with pytest.raises(jsonschema.ValidationError):
        _VALIDATOR.validate(document)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(runs)
def test_no_field_of_a_run_is_lost(run: Run) -> None:
    """Reading back what was written, and writing it again, gives the same document."""
    document = run_to_json(run, [])
    read, records = run_from_json(json.loads(json.dumps(document, allow_nan=False)))
    assert run_to_json(read, records) == document


def test_a_newer_schema_is_refused() -> None:
    """Reading half of it would lose figures silently."""
    with pytest.raises(HistoryError, match="newer"):
        run_from_json({**_document(), "schema": 2})


@pytest.mark.parametrize("document", [None, [], {}, {"schema": "1"}, {"schema": 1}, {"schema": 1, "run": {}}])
def test_other_json_is_refused(document: object) -> None:
    """The message names the field."""
    with pytest.raises(HistoryError, match="is not what it must be"):
        run_from_json(document)


def test_each_run_has_an_id_of_its_own(tmp_path: Path) -> None:
    """Two runs may start in the same second."""
    first, second = start_run(tmp_path), start_run(tmp_path)
    assert first.id != second.id
    assert first.environment.identity["isa"]
    assert first.started_at.endswith("+00:00")


_SHA = "f" * 40


def _code(root: Path) -> dict[str, object]:
    """Return what a run at `root` says about the code, without what is not known."""
    run = start_run(root)
    names = ("commit", "branch", "dirty", "parents", "merge_base", "target", "pull_request", "tree")
    return {name: getattr(run, name) for name in names if getattr(run, name)}


def test_git_tells_parents_and_merge_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch in a pull request: its number comes from CI, all else from git. A change is not the commit's tree."""
    without_ci(monkeypatch)
    repository = make_repository(tmp_path)
    first = repository.commit("first")
    repository.git("update-ref", "refs/remotes/origin/main", first)
    repository.git("checkout", "-b", "topic")
    second, third = repository.commit("second"), repository.commit("third")
    monkeypatch.setenv("GITHUB_REF", "refs/pull/8/merge")
    monkeypatch.setenv("GITHUB_SHA", _SHA)
    expected = {
        "commit": third,
        "branch": "topic",
        "parents": (second,),
        "merge_base": first,
        "target": "main",
        "pull_request": "8",
    }
    assert _code(tmp_path) == {**expected, "tree": repository.git("rev-parse", "HEAD^{tree}")}
    (tmp_path / "file").write_text("changed")
    assert _code(tmp_path) == {**expected, "dirty": True}


def test_ci_tells_what_git_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without a repository, as a container may be given them."""
    without_ci(monkeypatch)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert _code(tmp_path) == {}
    monkeypatch.setenv("CI_COMMIT_SHA", _SHA)
    monkeypatch.setenv("CI_COMMIT_REF_NAME", "topic")
    monkeypatch.setenv("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main")
    monkeypatch.setenv("CI_MERGE_REQUEST_IID", "3")
    assert _code(tmp_path) == {"commit": _SHA, "branch": "topic", "target": "main", "pull_request": "3"}


def test_a_target_that_was_not_fetched_stops_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CI's name of it is kept, the merge base is not known."""
    without_ci(monkeypatch)
    repository = make_repository(tmp_path)
    assert _code(tmp_path) == {"branch": "main"}
    first = repository.commit("first")
    monkeypatch.setenv("CHANGE_TARGET", "release")
    tree = repository.git("rev-parse", "HEAD^{tree}")
    assert _code(tmp_path) == {"commit": first, "branch": "main", "target": "release", "tree": tree}
