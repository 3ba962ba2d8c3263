"""What a comment of ``pytest-quant comment`` begins with, and which request a job of CI is about."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.cli.comment import mark_comment, number_on_github
from pytest_quant.errors import UsageError
from pytest_quant.history.compare import compare
from pytest_quant.report.pull_request import run_comment
from tests.unit.record.examples import RUN, a_record

TEXT = "<!-- pytest-quant comment -->\n**PASS: 1 check: 1 PASS**\n"


def test_a_name_is_part_of_the_first_line() -> None:
    """So that each job finds its own; a file of either command will do."""
    assert mark_comment(TEXT, "") == TEXT
    assert mark_comment(TEXT, "gpu-a10") == TEXT.replace("comment", "comment gpu-a10")
    assert mark_comment("<!-- pytest-quant compare -->\r\nx\r\n", "").splitlines() == [
        "<!-- pytest-quant compare -->",
        "x",
    ]


def test_what_writes_a_comment_as_the_message_says_is_one() -> None:
    """Both commands that the refusal of another file names give a text that can be posted."""
    with pytest.raises(UsageError, match="no comment") as caught:
        mark_comment("# my notes\n", "")
    assert "--quant-markdown=FILE" in str(caught.value)
    assert "pytest-quant compare --markdown" in str(caught.value)
    for text in (run_comment(RUN, [a_record()]), run_comment(None, (), compared=[compare([], [])])):
        assert mark_comment(text, "gpu").partition("\n")[2] == text.partition("\n")[2]


EVENTS: list[tuple[Any, int | None]] = [
    ({"pull_request": {"number": 5}}, 5),
    ({"issue": {"number": 7, "pull_request": {}}}, 7),
    ({"workflow_run": {"pull_requests": [{"number": 8}]}}, 8),
    ({"workflow_run": {"pull_requests": []}}, None),
    ({"ref": "refs/heads/main"}, None),
    (5, None),
    ([], None),
    ({"workflow_run": None}, None),
    ({"workflow_run": {"pull_requests": 5}}, None),
    ({"workflow_run": {"pull_requests": ["x"]}, "pull_request": [], "issue": {"number": 9}}, 9),
]


@pytest.mark.parametrize(("event", "number"), EVENTS)
def test_the_number_is_in_what_started_the_job(tmp_path: Path, event: Any, number: int | None) -> None:
    """Of a pull request, a comment on one, or the run of another workflow; the ref of a pull request comes before."""
    file = tmp_path / "event.json"
    file.write_text(json.dumps(event))
    variables = {"GITHUB_EVENT_PATH": str(file), "GITHUB_REF": "refs/heads/main"}
    assert number_on_github(variables) == number
    assert number_on_github(variables | {"GITHUB_REF": "refs/pull/17/merge"}) == 17
    for text in ("{", "[" * 100_000):
        file.write_text(text)
        assert number_on_github(variables) is None
    file.unlink()
    os.mkfifo(file)
    assert number_on_github(variables) is None
