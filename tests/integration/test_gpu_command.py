"""``python -m tests.gpu``, as far as a machine without a GPU can try it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from pytest_quant.environment.gpu import find_gpus
from tests.gpu import device_checks, suites
from tests.gpu.__main__ import planned
from tests.gpu.report import Found, Part, line, page, summary

LIMIT_S = 300.0


@pytest.mark.slow
def test_without_a_gpu_each_part_names_what_is_lacking() -> None:
    """Only the doctor has something to say; nothing fails, and the report stays as it is."""
    if find_gpus():
        pytest.skip("there is a GPU here")
    command = [sys.executable, "-m", "tests.gpu"]
    ended = subprocess.run(command, cwd=suites.ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    states = re.findall(r"^ ?(\d+) (ok|FAILED|lacking) ", ended.stdout, re.MULTILINE)
    assert [int(number) for number, _ in states] == list(range(1, len(states) + 1))
    assert len(states) > 12
    assert [number for number, state in states if state != "lacking"] == ["8"]
    assert "so REPORT.md is left as it is" in ended.stdout


@pytest.mark.slow
def test_a_null_is_launched_five_times() -> None:
    """On the CPU: five ratios with their intervals."""
    found = suites.launches(LIMIT_S, "ort")
    assert found.state == "ok", found.figure
    assert len(re.findall(r"\d+\.\d{4} \[\d+\.\d{3}, \d+\.\d{3}\]", found.figure)) == 5


@pytest.mark.slow
def test_workers_share_the_device() -> None:
    """Eight checks of a module, four at a time."""
    found = suites.workers(LIMIT_S, "torch")
    assert (found.state, found.figure.split(",")[0]) == ("ok", "8 passed"), found.figure


@pytest.mark.slow
def test_the_example_runs_on_the_backend_that_is_named() -> None:
    """Its digits, with the backend out of the ini option."""
    found = suites.example(LIMIT_S, "ort")
    assert (found.state, found.figure.split(",")[0]) == ("ok", "3 passed"), found.figure


def test_every_file_of_tests_for_a_gpu_is_a_part() -> None:
    """A new one is not forgotten."""
    asked: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(suites, "suite", lambda _, file: asked.append(file))
        for _, limit_s, run in planned(()):
            if "_suite" in run.__qualname__:
                run(limit_s)
    assert sorted(asked) == sorted(file.name for file in Path(suites.__file__).parent.glob("test_*.py"))


def test_a_suite_without_its_device_is_lacking_with_the_reason() -> None:
    """Nothing passed and nothing failed."""
    if find_gpus():
        pytest.skip("there is a GPU here")
    found = suites.suite(LIMIT_S, "test_trt.py")
    assert found.state == "lacking"
    assert "tensorrt" in found.figure or "GPU" in found.figure


@pytest.mark.parametrize(
    ("returncode", "stdout", "stderr", "found"),
    [
        (0, '\n{"state": "ok", "figure": "1 ms"}\n', "", Found("ok", "1 ms")),
        (
            0,
            '\n{"state": "ok", "figure": "1 ms"}\n',
            "a warning\n",
            Found("FAILED", "1 ms; and on standard error: a warning"),
        ),
        (-11, "", "gone\n", Found("FAILED", "exit code -11: gone")),
    ],
)
def test_how_a_check_ended(returncode: int, stdout: str, stderr: str, found: Found) -> None:
    """A death and a word on standard error are failures, whatever was measured."""
    ended = subprocess.CompletedProcess((), returncode, stdout, stderr)
    assert device_checks.read_answer(ended) == found


def test_what_is_wrong_fails_and_what_is_lacking_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code and the answer of a check that fails, and of one that cannot be made."""

    def wrong() -> str:
        raise AssertionError("other bytes came back")

    def absent() -> str:
        raise device_checks.Lacking("no GPU")

    monkeypatch.setattr(device_checks, "CHECKS", {"wrong": wrong, "absent": absent})
    for name, code, found in (
        ("wrong", 1, Found("FAILED", "other bytes came back")),
        ("absent", 0, Found("lacking", "no GPU")),
    ):
        assert device_checks.main(name) == code
        assert json.loads(capsys.readouterr().out) == asdict(found)


def test_the_page_has_a_row_for_each_part() -> None:
    """With machine, date and figures; a bar inside a figure does not split the row."""
    parts = [
        Part(1, "memory", Found("ok", "64 MB | equal\nboth"), 1.4),
        Part(2, "energy", Found("lacking", "no GPU"), 0.2),
    ]
    text = page({"gpu": "NVIDIA H200"}, "2026-11-22", parts)
    assert text.startswith("# What ran on a GPU, 2026-11-22\n")
    assert "| gpu | NVIDIA H200 |" in text
    assert "| 1 memory | ok | 64 MB \\| equal both | 1 |" in text
    assert summary(parts) == "2 parts in 2 s: 1 ok, 1 lacking"
    assert line(parts[1]) == " 2 lacking energy (0 s)\n   no GPU"
