"""``pytest-quant check``: a verdict without a test file, and the test that gives the same."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.integration.test_init import NETS
from tests.support.guide_files import write_files
from tests.support.history_repository import outside_ci, run_pytest

FAST = ("--", "--quant-no-latency", "--quant-no-portability", "--quant-diagnose-time=0")
"""Options of pytest: what is left out is tested elsewhere."""

SAME = "The test that does the same, run from this folder:\n\n"


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A folder with a model and its labelled samples, in one file and in two."""
    write_files(tmp_path, "")
    samples = np.load(tmp_path / "digits.npz")
    np.save(tmp_path / "images.npy", samples["images"])
    np.save(tmp_path / "labels.npy", samples["labels"])
    return tmp_path


def check(folder: Path, *words: str, code: int = 0) -> str:
    """Run the command there, to this end, and return what it printed to both streams."""
    command = [sys.executable, "-m", "pytest_quant", "check", *words]
    done = subprocess.run(
        command, cwd=folder, env=outside_ci(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == code, done.stdout
    return done.stdout


def test_the_printed_test_gives_the_same(digits: Path) -> None:
    """The table comes first; pasted into a file beside the model, the test has the same row. Nothing is left behind."""
    before = {file.name for file in digits.iterdir()}
    said = check(digits, "digits.onnx", "--data=digits.npz", "--max-drop=1.0", *FAST)
    assert {file.name for file in digits.iterdir()} == before
    (digits / "test_pasted.py").write_text(said.partition(SAME)[2], "utf-8")
    again = run_pytest(digits, "-p", "no:cacheprovider", *FAST[1:], "test_pasted.py")
    assert again.returncode == 0
    rows = [row for out in (said, again.stdout) for row in out.splitlines() if row.startswith("test_digits ")]
    # By the width of a terminal there are more columns or fewer.
    assert len({tuple(row.split()[1:5]) for row in rows}) == 1
    assert [row.split()[-1] for row in rows] == ["PASS", "PASS"]


def test_a_broken_limit_ends_with_one(digits: Path) -> None:
    """Limits have the form of the mark, with a unit, a number or a dict; labels lie in a file of their own."""
    words = ("--min-agreement", "10 %", "--min-sqnr-db={'logits': 90}", "--labels=labels.npy")
    said = check(digits, "digits.onnx", "--data=images.npy", *words, *FAST, code=1)
    # How close it is differs by processor.
    assert re.search(r"min_sqnr_db\[logits\]: \d\d\.\d+ dB is below 90 dB", said)
    assert '@pytest.mark.quant(min_agreement="10 %", min_sqnr_db={"logits": 90})' in said


def test_several_outputs_are_named_with_commas(digits: Path) -> None:
    """As backends are: the second, which is not there, is the one that is named."""
    said = check(digits, "digits.onnx", "--data=digits.npz", "--output=logits,boxes", *FAST, code=1)
    assert "the model has no output 'boxes'" in said


def test_engines_are_kept_where_a_folder_of_ours_is(digits: Path) -> None:
    """Here or above, as other commands find it; the history in it stays as it is."""
    (digits / ".quant").mkdir()
    below = digits / "below"
    below.mkdir()
    words = ("../digits.onnx", "--data=../digits.npz", *FAST)
    assert "1 engine built, 0 from cache" in check(below, *words)
    assert "0 engines built, 1 from cache" in check(below, *words)
    assert {file.name for file in (digits / ".quant").iterdir()} == {"cache"}
    assert list(below.iterdir()) == []


def test_settings_of_a_project_around_are_for_its_own_tests(digits: Path) -> None:
    """Its options may name plugins that this run does not need, and its conftest fixtures of another model."""
    (digits / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n", "utf-8")
    (digits / "conftest.py").write_text("raise SystemExit\n", "utf-8")
    assert "1 check: 1 PASS" in check(digits, "digits.onnx", "--data=digits.npz", "--max-drop=1", *FAST)


def test_a_module_is_named_as_for_init(tmp_path: Path) -> None:
    """From the folder in which the command is given."""
    (tmp_path / "nets.py").write_text(NETS, "utf-8")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((60, 1, 8, 8), dtype=np.float32))
    said = check(tmp_path, "nets:example", "--data=x.npy", "--backend=ort", "--min-sqnr-db=10", *FAST)
    assert "1 check: 1 PASS" in said
    assert 'return Model.from_torch(*nets.example(), name="example")' in said


WRONG = [
    (("digits.onnx", "--data=none.npz"), "invalid value for '--data': File 'none.npz' does not exist"),
    (("none.onnx", "--data=digits.npz"), "there is no such model file\n  got: none.onnx"),
    (("digits.onnx", "--data=digits.onnx"), "digits.onnx is no file of NumPy"),
    (("digits.onnx", "--data=digits.npz", "--max-drop=much"), "max_drop must be a number\n  got: 'much'"),
    (("digits.onnx", "--data=digits.npz", "--metric=topp1"), "unknown metric 'topp1'"),
    (("digits.onnx", "--data=digits.npz", "--backend=orrt"), "'orrt'"),
    (("int8.onnx", "--data=digits.npz"), "int8.onnx is quantized already"),
]


@pytest.mark.parametrize(("words", "what"), WRONG)
def test_what_cannot_be_checked_is_said_before_anything_runs(digits: Path, words: tuple[str, ...], what: str) -> None:
    """In the style of all errors, with exit 2, and without the test that would not run."""
    if words[0] == "int8.onnx":
        write_files(digits, "digits_int8.onnx")
        (digits / "digits_int8.onnx").rename(digits / "int8.onnx")
    said = check(digits, *words, code=2)
    assert f"error: {what}" in said or (what == "'orrt'" and what in said)
    assert SAME not in said
    assert "Traceback" not in said
