"""README.md is true: its code runs, its tables are whole, its commands are the ones that CI runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path

import pytest
from sklearn.datasets import load_digits

from pytest_quant.backends import get_backend
from pytest_quant.backends.registry import GROUP
from pytest_quant.marks.keys import KEYS
from pytest_quant.plugin.options import OPTIONS
from pytest_quant.readers import Key, keys_of
from pytest_quant.report.columns import COLUMNS
from pytest_quant.result import Status
from tests.support.example import EXAMPLE, ROOT, environment

README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def table(heading: str) -> list[list[str]]:
    """Return the cells of the table whose head starts with `heading`, row by row."""
    found = re.search(rf"^\| {heading} \|.*\n\| ---.*\n((?:\|.*\n)+)", README, re.MULTILINE)
    assert found is not None, heading
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found[1].splitlines()]


def first_column(heading: str) -> list[str]:
    """Return the words in the first column of a table, without code marks."""
    return [row[0].strip("`") for row in table(heading)]


def may_be(key: Key, default: object) -> str:
    """Return what an option may be, and its default where that may be written."""
    written = default not in (None, MISSING) and key.reader.form(key.name, default) is not None
    return key.reader.allowed + (f"; default {default!r}" if written else "")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The README's Python blocks as files, beside the model and the samples that they name."""
    import numpy as np

    digits = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    np.savez(tmp_path / "digits.npz", images=images, labels=digits.target)
    (tmp_path / "digits.onnx").write_bytes((EXAMPLE / "digits.onnx").read_bytes())
    for block in blocks("python"):
        named = re.match(r"# (\w+\.py)\n", block)
        assert named is not None, block
        (tmp_path / named[1]).write_text(block, "utf-8")
    return tmp_path


def test_python_blocks_run_and_every_test_in_them_passes(project: Path) -> None:
    """Together they are one project, whose tests all pass."""
    tests = re.findall(r"def (test_\w+)", "".join(blocks("python")))
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--quant-max-time=1", "-rA"],
        cwd=project,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    passed = re.findall(r"^PASSED .*::(test_\w+)", result.stdout, re.MULTILINE)
    assert set(tests) <= set(passed), result.stdout
    assert passed.count("test_ladder") == 3


def test_every_key_of_the_mark_is_in_the_table() -> None:
    """Keys, their order and what each means are those of the package."""
    assert table("key") == [[f"`{name}`", key.help] for name, key in KEYS.items()]


def test_every_option_is_in_the_table() -> None:
    """Options and their order are those of the package."""
    assert [words.split()[0].split("=")[0] for words in first_column("option")] == [option.flag for option in OPTIONS]


@pytest.mark.parametrize(
    ("heading", "place"),
    [
        ("`ort` option", "ort.options:OrtOptions"),
        ("`openvino` option", "openvino.recipe:OpenVinoOptions"),
        ("`torch` option", "torch.options:TorchOptions"),
        ("TensorRT option", "trt.options:TrtOptions"),
    ],
)
def test_every_option_of_a_backend_is_in_its_table(heading: str, place: str) -> None:
    """Options, their order, what they may be and what they mean are those of the backend."""
    module, _, name = place.partition(":")
    options = getattr(import_module(f"pytest_quant.backends.{module}"), name)
    keys = keys_of(options)
    assert list(keys) == [field.name for field in fields(options)]
    rows = [
        [f"`{field.name}`", may_be(keys[field.name], field.default), keys[field.name].help] for field in fields(options)
    ]
    assert table(heading) == rows


def test_every_backend_is_in_the_table() -> None:
    """Each that the package registers, with what it offers; the one in numpy is for authors of backends and is none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert first_column("backend") == sorted(project["entry-points"][GROUP])
    assert not [place for place in project["entry-points"][GROUP].values() if place.startswith("pytest_quant.testing")]
    for name in first_column("backend"):
        (row,) = [line for line in README.splitlines() if line.startswith(f"| `{name}` |")]
        for precision, schemes in get_backend(name).schemes.items():
            assert all(word in row for word in (precision, *(scheme for scheme in schemes if scheme))), name


def test_every_status_is_in_the_table() -> None:
    """Each status has its row."""
    assert sorted(first_column("status")) == sorted(status.value for status in Status)


def test_the_table_has_columns_that_are_printed() -> None:
    """Every head in the table of results is one of the report's, with its unit; the metric's head is its name."""
    (table,) = blocks("text")
    headers = [header.split()[0] for header in re.split(r"  +", table.splitlines()[0])]
    assert set(headers) - {"top1"} <= {column.head for column in COLUMNS}


def test_entry_points_are_those_that_are_read() -> None:
    """The TOML block names groups that the package looks into."""
    (block,) = blocks("toml")
    assert list(tomllib.loads(block)["project"]["entry-points"]) == [GROUP, "pytest_quant.metrics"]


def test_two_command_lines_do_everything() -> None:
    """There are two of them, of one line each, and the second is the one that CI runs."""
    commands = [block.rstrip("\n") for block in blocks("sh")]
    assert [len(command.splitlines()) for command in commands] == [1, 1]
    assert (ROOT / ".ci" / "run").read_text("utf-8").splitlines()[-1] == commands[1]


def test_commands_install_what_the_project_pins() -> None:
    """The version of torch in the command is the one in pyproject.toml, and each file that it reads is there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (torch,) = [name for name in project["optional-dependencies"]["dev"] if name.startswith("torch==")]
    example, tests = (shlex.split(block) for block in blocks("sh"))
    assert torch in tests
    assert ".[example]" in example
    assert ".[dev]" in tests
    for words in (example, tests):
        assert (ROOT / words[words.index("-r") + 1]).is_file()
