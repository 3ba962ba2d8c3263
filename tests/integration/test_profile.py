"""``pytest-quant profile``, as a user runs it, on real engines."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.integration.projects import DATA, write_project
from tests.support.example import EXAMPLE
from tests.support.history_repository import Answer, run_command
from tests.support.models import select_first

NODES = {f"layer{number}" for number in range(9)}
"""Of the digit classifier."""


def _ask(folder: Path, *words: str) -> Answer:
    return run_command(folder, "profile", *words, columns=100)


def _document(folder: Path, *words: str) -> dict[str, Any]:
    ran = _ask(folder, "--json", *words)
    assert ran.returncode == 0, ran.stderr
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


DIGITS = f"""
import sys
sys.path.insert(0, {str(EXAMPLE)!r})
import pytest
from digits_data import load_digits_split
from pytest_quant import Dataset

@pytest.fixture
def quant_model():
    return {str(EXAMPLE / "digits.onnx")!r}

@pytest.fixture
def quant_data():
    split = load_digits_split()
    return Dataset.from_arrays(split.test_images, split.test_labels, calibration=split.calibration_images)
"""


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A project with checks of the digit classifier, whose ini file selects and spreads tests of its own."""
    (tmp_path / "conftest.py").write_text(DIGITS, "utf-8")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = -m slow -n 2\nquant_json = run.json\nquant_max_time = 1\n"
    )
    (tmp_path / "test_digits.py").write_text(
        "import pytest\n"
        "@pytest.mark.xfail(strict=True, reason='the body')\n"
        "@pytest.mark.quant(scheme=['static', 'dynamic'], batch_size=8, max_drop=0.0, min_agreement=100)\n"
        "def test_int8():\n"
        "    raise ZeroDivisionError('the body ran')\n",
        "utf-8",
    )
    return tmp_path


def test_every_node_has_its_row_on_both_sides(digits: Path) -> None:
    """Static INT8: all nodes of the model are there, every product is in integers, and sums agree with the rows."""
    result = _document(digits, "test_digits.py::test_int8[ort-int8-static]")
    assert {node for row in result["rows"] for node in row["nodes"]} == NODES
    products = [row for row in result["rows"] if set(row["nodes"]) & {"layer0", "layer2", "layer5", "layer8"}]
    assert len(products) == 4
    assert all({layer["precision"] for layer in row["candidate"]} == {"int8"} for row in products)
    assert all({layer["precision"] for layer in row["reference"]} == {"fp32"} for row in products)
    rows = [*result["rows"], *result["reformats_and_copies"]]
    for side in ("reference", "candidate"):
        spent = sum(layer["ms"] for row in rows for layer in row[side])
        assert result[side]["layers_ms"] == pytest.approx(spent)
        assert result[side]["run_ms"] > 0.0
    assert {"QuantizeLinear", "DequantizeLinear"} <= {
        layer["op"] for row in result["reformats_and_copies"] for layer in row["candidate"]
    }
    assert result["batch_size"] == 8


def test_nothing_is_judged_or_kept(digits: Path) -> None:
    """The limits are broken, the body would raise, a failure is expected: it is a profile all the same."""
    ran = _ask(digits, "test_digits.py::test_int8[ort-int8-dynamic]", "--top", "3")
    assert ran.returncode == 0, ran.stderr
    assert "the body ran" not in ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[0].startswith(
        "test_digits.py::test_int8[ort-int8-dynamic]: layers of ort-int8-dynamic beside ort-fp32"
    )
    assert any(re.match(r"\.\.\. and \d+ rows? more \(--top\)", line) for line in lines)
    assert any(line.startswith("whole run as timed ") for line in lines)
    assert max(map(len, lines)) <= 100
    left = {file.name for file in digits.iterdir()}
    assert not left & {"run.json", ".pytest_cache"}
    assert not (digits / ".quant" / "history.db").exists()
    assert (digits / ".quant" / "cache").is_dir()


def test_it_wants_one_marked_test(tmp_path: Path) -> None:
    """Several are listed, none are told apart, exit 2; what pytest does not find it tells itself."""
    (tmp_path / "test_many.py").write_text(
        "import pytest\n"
        "@pytest.mark.quant(scheme=['static', 'dynamic'])\n"
        "def test_list(): pass\n"
        "def test_plain(): pass\n",
        "utf-8",
    )
    several = _ask(tmp_path, "test_many.py::test_list")
    assert several.returncode == 2
    assert "matches 2 marked tests" in several.stderr
    assert "    test_many.py::test_list[ort-int8-dynamic]\n" in several.stderr
    plain = _ask(tmp_path, "test_many.py::test_plain")
    assert (plain.returncode, plain.stdout) == (2, "")
    assert "matches no test that is marked with quant" in plain.stderr
    slip = _ask(tmp_path, "test_many.py::test_lits[ort-int8-static]")
    assert slip.returncode == 1
    assert re.search(r"ERROR: not found: .*test_many.py::test_lits\n\(no match in any of", slip.stderr)
    missing = _ask(tmp_path, "test_none.py::test_a")
    assert missing.returncode == 1
    assert "file or directory not found: test_none.py::test_a" in missing.stderr
    assert "Traceback" not in several.stderr + plain.stderr + slip.stderr + missing.stderr


def test_an_error_is_printed_as_pytest_does(pytester: pytest.Pytester) -> None:
    """The check that errors: its text, its next step, exit 1. What runtimes log can be thousands of lines."""
    noise = "import logging; logging.getLogger().warning('noise of a runtime'); "
    write_project(pytester, model="absent.onnx", data=noise + DATA)
    ran = _ask(pytester.path, "test_model.py")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "ERROR at setup of test_model" in ran.stderr
    assert "the model file does not exist" in ran.stderr
    assert "next: check the path" in ran.stderr
    assert "noise of a runtime" not in ran.stderr


@pytest.mark.parametrize(
    ("mark", "words", "said"),
    [
        ("", ("test_a.py", "--", "--no-such-option"), "unrecognized arguments: --no-such-option"),
        ("max_drp=1.0", ("test_a.py::test_a",), "did you mean 'max_drop'?"),
    ],
)
def test_what_pytest_refuses_is_told_in_its_words(tmp_path: Path, mark: str, words: tuple[str, ...], said: str) -> None:
    """Exit 1."""
    (tmp_path / "test_a.py").write_text(f"import pytest\n@pytest.mark.quant({mark})\ndef test_a(): pass\n", "utf-8")
    ran = _ask(tmp_path, *words)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert said in ran.stderr
    assert "matches no test" not in ran.stderr


def test_options_of_pytest_go_behind_two_dashes(pytester: pytest.Pytester) -> None:
    """A run without latency says why it has no whole run; engines come from the cache that is given."""
    select_first(pytester.path / "model.onnx")
    write_project(pytester)
    elsewhere = pytester.path / "elsewhere"
    entries = []
    for _ in range(2):
        ran = _ask(pytester.path, "test_model.py", "--", "--quant-no-latency", f"--quant-cache={elsewhere}")
        assert ran.returncode == 0, ran.stderr
        entries.append(sorted(entry.name for entry in (elsewhere / "engine").iterdir()))
    assert entries[0] == entries[1]
    assert len(entries[0]) == 2
    assert "no whole run was timed: --quant-no-latency is set" in ran.stdout.replace("\n", " ")
    assert "MatMul" in ran.stdout
    assert not (pytester.path / ".quant").exists()


@pytest.mark.skipif(find_spec("tensorrt_rtx") is None, reason="needs tensorrt_rtx")
def test_a_build_for_a_gpu_that_is_not_here_has_layers_without_times(pytester: pytest.Pytester) -> None:
    """TensorRT-RTX tells layers, nodes and precisions of what it built; both products of the engines are the node's."""
    select_first(pytester.path / "model.onnx")
    write_project(pytester, mark="backend='trt-rtx', max_drop=50.0")
    result = _document(pytester.path, "test_model.py", "--", "--quant-simulate=SM89")
    (row,) = [row for row in result["rows"] if row["nodes"] == ["scores"]]
    assert row["reference"]
    assert row["candidate"]
    layers = [layer for each in result["rows"] for side in ("reference", "candidate") for layer in each[side]]
    assert {layer["ms"] for layer in layers} == {None}
    assert "int8" in {layer["precision"] for layer in row["candidate"]}
    assert {layer["precision"] for layer in row["reference"]} == {"fp32"}
    assert "float simulation" in result["untimed"]
