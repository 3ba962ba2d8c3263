"""Blocks of the guides: settings are read, recipes for other tools run. A night runs the tests and the commands."""

from __future__ import annotations

import configparser
import json
import re
import struct
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from pytest_quant.history import open_store
from pytest_quant.plugin.settings import OPTIONS
from tests.integration.projects import output, run_project_apart
from tests.integration.projects import write_project as write_small_project
from tests.support import models
from tests.support.documents import REFERENCE, guides
from tests.support.example import EXAMPLE
from tests.support.history_repository import run_command
from tests.support.workflows import lint_github
from tests.unit.record.examples import RUN, a_record

WRITTEN = [guide for guide in guides() if guide.file != REFERENCE]
"""The guides that are written by hand; the blocks of the reference are made, as all of it is."""

RECIPES = [block for guide in WRITTEN for block in guide.blocks("python") if not block.file_name]
"""For other tools, of which few are installed here."""


def test_settings_are_read() -> None:
    """Options of an ini block are the plugin's or keep it; groups of entry points are those that we look into."""
    names = {option.name for option in OPTIONS} | {"required_plugins", "addopts"}
    for guide in WRITTEN:
        for block in guide.blocks("ini"):
            parsed = configparser.ConfigParser()
            parsed.read_string(block.text)
            assert parsed["pytest"].keys() <= names, guide.file
        for block in guide.blocks("yaml"):
            assert YAML(typ="safe").load(block.text), guide.file
        for block in guide.blocks("toml"):
            groups = tomllib.loads(block.text)["project"]["entry-points"]
            assert set(groups) <= {"pytest_quant.backends", "pytest_quant.metrics"}, guide.file


def test_no_block_is_left_out() -> None:
    """Each is in a language that a test of this file takes; Python is a file, or a recipe for another tool.

    What was measured once is ``text``: ``tests/unit/report/test_selftest_page.py`` reads it. The rights of a role are
    ``sql``: ``test_history_fleet.py`` grants them.
    """
    taken = {"python", "console", "console example", "sh", "ini", "toml", "yaml", "text", "sql"}
    left = [
        (guide.file.name, block.line) for guide in WRITTEN for block in guide.blocks() if block.language not in taken
    ]
    assert left == []
    for block in RECIPES:
        compile(block.text, "recipe", "exec")


def test_workflows_are_sound_and_have_the_actions_of_init(tmp_path: Path) -> None:
    """A whole workflow in a guide passes actionlint, and names each action by the commit that ``init`` writes."""
    whole = [block.text for guide in WRITTEN for block in guide.blocks("yaml") if "\njobs:\n" in block.text]
    assert whole
    written = (EXAMPLE / ".github" / "workflows" / "quant.yml").read_text("utf-8")
    for number, text in enumerate(whole):
        workflow = tmp_path / f"{number}.yml"
        workflow.write_text(text, "utf-8")
        assert lint_github(workflow) == ""
        assert not set(re.findall(r"uses: (.*)", text)) - set(re.findall(r"uses: (.*)", written))


class _Server(BaseHTTPRequestHandler):
    """Streams three tokens, as OpenAI's API does, to whoever asks for a completion."""

    def do_POST(self) -> None:
        """Send an event for each token, and then that there is no more."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        for token in (asked["prompt"], " is", " here") if asked["stream"] else ():
            self.wfile.write(f"data: {json.dumps({'choices': [{'text': token}]})}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base class
        """Say nothing."""


def test_the_recipe_for_a_server_yields_its_tokens() -> None:
    """In the form in which a server that speaks OpenAI's API streams them."""
    names: dict[str, Any] = {}
    (block,) = [block for block in RECIPES if "def stream(" in block.text]
    server = HTTPServer(("127.0.0.1", 0), _Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        exec(block.text.replace("localhost:8000", f"127.0.0.1:{server.server_port}"), names)  # noqa: S102 # nosec B102
        assert list(names["stream"](["Lima"])) == ["Lima", " is", " here"]
    finally:
        server.shutdown()
        server.server_close()


def recipe(*words: str) -> str:
    """Return the recipes of the guide about exports that hold these words."""
    return "\n\n".join(block.text for block in RECIPES if any(word in block.text for word in words))


def test_the_recipe_for_tensorboard_sends_the_figures(pytester: pytest.Pytester) -> None:
    """They are those of the record, read back from the file of events; the run says nothing of it."""
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto import event_pb2

    models.select_first(pytester.path / "model.onnx")
    write_small_project(pytester)
    conftest = pytester.path / "conftest.py"
    conftest.write_text(conftest.read_text() + "\n\n" + recipe("def figures(", "tensorboardX"))
    result, (check,) = run_project_apart(pytester)
    result.assert_outcomes(passed=1)
    assert "pytest_quant_record failed" not in output(result)
    outcome: dict[str, float] = {}
    for file in (pytester.path / "tensorboard").rglob("events.*"):
        content = file.read_bytes()
        while content:
            # Length, its checksum, the event, its checksum, and so on.
            (length,) = struct.unpack("<Q", content[:8])
            event = event_pb2.Event.FromString(content[12 : 12 + length])
            outcome |= {value.tag.rpartition("/")[2]: value.simple_value for value in event.summary.value}
            content = content[16 + length :]
    figures = {"score": check["accuracy"]["candidate"], "drop": check["accuracy"]["drop"]}
    figures["coverage_pct"] = check["coverage"]["pct"]
    # TensorBoard keeps single precision.
    assert {name: outcome[name] for name in figures} == pytest.approx(figures, rel=1e-6)


def test_pandas_reads_the_table(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dates are dates, numbers numbers, and a pivot is a line for each run."""
    pytest.importorskip("pandas")
    open_store(pytester.path / ".quant" / "history.db").append(RUN, [a_record()])
    run_command(pytester.path, "history", "export", "checks.csv")
    result = pytester.runpython_c(recipe("import pandas"))
    assert result.ret == 0, output(result)
    result.stdout.fnmatch_lines(["*2026-01-02 03:04:05+00:00*1.9475"])
