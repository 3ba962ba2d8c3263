"""``python -m tests.gpu``, as far as a machine without a GPU can try it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest

from pytest_quant.environment.gpu import find_gpus
from tests.gpu import __main__ as command
from tests.gpu import device_checks, process, suites
from tests.gpu.report import Found, Part, kept, line, page, summary

LIMIT_S = 300.0


@pytest.mark.slow
def test_without_a_gpu_each_part_names_what_is_lacking(tmp_path: Path) -> None:
    """Two have something to say; nothing fails, every result is kept, and the exit code is its own."""
    if find_gpus():
        pytest.skip("there is a GPU here")
    asked = [sys.executable, "-m", "tests.gpu", "--out", str(tmp_path)]
    ended = subprocess.run(asked, cwd=process.ROOT, capture_output=True, text=True, check=False, timeout=900)
    assert ended.returncode == command.NO_GPU, ended.stdout + ended.stderr
    states = {name: state for state, name in re.findall(r"^(ok|FAILED|lacking) +(\S+):", ended.stdout, re.MULTILINE)}
    assert list(states) == list(command.PLANS["cuda"])
    assert {name for name, state in states.items() if state != "lacking"} == {"raw", "doctor"}
    assert ended.stdout.splitlines()[-1].startswith("there is no GPU here, so these parts could not be tried: mission")
    assert [part.found.state for part in kept(tmp_path, [*states])] == list(states.values())
    assert all(f"| {name}: " in (tmp_path / "REPORT.md").read_text("utf-8") for name in states)
    assert (tmp_path / "trt.xml").exists()
    assert (tmp_path / "raw" / "trt-rtx-build.log").stat().st_size > 1000


@pytest.mark.slow
def test_a_null_is_launched_five_times(tmp_path: Path) -> None:
    """On the CPU: five ratios with their intervals, and five documents to read again."""
    found = suites.launches(LIMIT_S, tmp_path / "null", "ort")
    assert found.state == "ok", found.figure
    assert len(re.findall(r"\d+\.\d{4} \[\d+\.\d{3}, \d+\.\d{3}\]", found.figure)) == 5
    assert len(list(tmp_path.glob("null-*.quant.json"))) == 5


@pytest.mark.slow
def test_workers_share_the_device(tmp_path: Path) -> None:
    """Eight checks of a module, four at a time."""
    found = suites.workers(LIMIT_S, tmp_path / "workers", "torch")
    assert (found.state, found.figure.split(",")[0]) == ("ok", "8 passed"), found.figure


@pytest.mark.slow
def test_the_example_runs_on_the_backend_that_is_named(tmp_path: Path) -> None:
    """Its digits, with the backend out of the ini option."""
    found = suites.example(LIMIT_S, tmp_path / "example", "ort")
    assert (found.state, found.figure.split(",")[0]) == ("ok", "3 passed"), found.figure


@pytest.mark.slow
def test_the_mission_is_tried_on_each_backend(tmp_path: Path) -> None:
    """On two for ONNX files here: each has its record with a drop and a coverage."""
    found = suites.mission(LIMIT_S, tmp_path / "mission", ("ort", "openvino"))
    assert (found.state, found.figure) == ("ok", "ort: 1 passed; openvino: 1 passed"), found.figure
    for backend in ("ort", "openvino"):
        document = json.loads((tmp_path / f"mission-{backend}.quant.json").read_text("utf-8"))
        (check,) = document["checks"]
        assert (check["backend"], check["verdicts"][0]["limit"]) == (backend, "max_drop")


@pytest.mark.slow
def test_the_mission_is_tried_without_the_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are scikit-learn's, and no module of torch: two products stand for them."""
    monkeypatch.setattr(suites, "find_spec", lambda _: None)
    found = suites.mission(LIMIT_S, tmp_path / "mission", ("ort", "torch"))
    assert (found.state, found.figure) == ("ok", "ort: 1 passed; torch: 1 passed"), found.figure


@pytest.mark.parametrize("plan", [*command.PLANS])
def test_a_plan_holds_every_part_and_ends_in_time(plan: str) -> None:
    """In 45 minutes, the doctor in front of it too, and the mission is the first of them."""
    assert sum(command.PLANS[plan].values()) + command.DOCTOR_S <= command.WHOLE_S == 45 * 60
    assert sorted(command.PLANS[plan]) == sorted(command.parts_of(()))
    assert next(iter(command.PLANS[plan])) == "mission"


def test_every_file_of_tests_for_a_gpu_is_a_part(tmp_path: Path) -> None:
    """A new one is not forgotten."""
    asked: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(suites, "suite", lambda _limit, _home, file: asked.append(file))
        for _, run in command.parts_of(()).values():
            if "_suite" in getattr(run, "__qualname__", ""):
                run(LIMIT_S, tmp_path / "part")
    assert sorted(asked) == sorted(file.name for file in Path(suites.__file__).parent.glob("test_*.py"))


@pytest.fixture
def run_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run the command over parts that are given by name, and a machine of which nothing is known."""

    def run(*arguments: str, **parts: Callable[[], Found]) -> int:
        made = {name: (f"title of {name}", lambda *_, part=part: part()) for name, part in parts.items()}
        monkeypatch.setattr(command, "PLANS", {plan: dict.fromkeys(parts, 10.0) for plan in command.PLANS})
        monkeypatch.setattr(command, "_examine", lambda _: ({"gpu": "none"}, made))
        return command.main(["--out", str(tmp_path), *arguments])

    return run


def test_a_run_that_is_killed_keeps_what_ended(run_parts: Callable[..., int], tmp_path: Path) -> None:
    """Result and report are there while the next part is under way."""

    def killed() -> Found:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_parts(first=lambda: Found("ok", "1 ms"), second=killed)
    assert "| first: title of first | ok | 1 ms |" in (tmp_path / "REPORT.md").read_text("utf-8")
    assert [part.name for part in kept(tmp_path, ["first", "second"])] == ["first"]


def test_a_part_that_breaks_costs_no_other(
    run_parts: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is failed, and so is the run; parts that are asked for again take the place of their first results."""

    def broken() -> Found:
        raise json.JSONDecodeError("Expecting value", "", 0)

    parts = {"first": broken, "second": lambda: Found("ok", "2 ms")}
    assert run_parts(**parts) == 1
    first, second = kept(tmp_path, [*parts])
    assert (first.found.state, second.found.figure) == ("FAILED", "2 ms")
    assert "Expecting value" in first.found.figure
    monkeypatch.setattr(command, "find_gpus", lambda: ("a card",))
    assert run_parts("--only", "first", **{**parts, "first": lambda: Found("ok", "3 ms")}) == 0
    report = (tmp_path / "REPORT.md").read_text("utf-8")
    assert "| ok | 3 ms |" in report
    assert "| ok | 2 ms |" in report


def test_without_a_gpu_the_exit_code_says_so(run_parts: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    """In the last line, what could not be tried; a failure counts for more."""
    if find_gpus():
        pytest.skip("there is a GPU here")
    lacking = partial(Found, "lacking", "no GPU")
    assert run_parts(first=lacking, second=lambda: Found("ok", "2 ms")) == command.NO_GPU
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "there is no GPU here, so these parts could not be tried: first"
    assert run_parts(first=lacking, second=lambda: Found("FAILED", "2 ms")) == 1


def test_a_suite_without_its_device_is_lacking_with_the_reason(tmp_path: Path) -> None:
    """Nothing passed and nothing failed."""
    if find_gpus():
        pytest.skip("there is a GPU here")
    found = suites.suite(LIMIT_S, tmp_path / "trt", "test_trt.py")
    assert found.state == "lacking"
    assert "tensorrt" in found.figure or "GPU" in found.figure


STUCK = """
import os, signal, threading


def test_first():
    pass


def test_stuck():
    if {deaf}:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Event().wait()


def test_last():
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("deaf", [False, True])
def test_a_suite_that_is_ended_tells_what_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaf: bool) -> None:
    """By pytest's own summary and JUnit where it hears Ctrl-C, by the lines of the log where it does not."""
    monkeypatch.setattr(process, "_LAST_WORDS_S", 5.0)
    (tmp_path / "test_stuck.py").write_text(STUCK.format(deaf=deaf))
    ended = suites._pytest(20.0, tmp_path, "test_stuck.py", home=tmp_path / "stuck")
    found = suites._read(ended)
    assert found.state == "FAILED"
    assert found.figure.startswith("1 passed")
    assert "it did not end within 20 s" in found.figure
    assert (tmp_path / "stuck.xml").exists() is not deaf


def test_a_test_that_does_not_end_costs_no_other(pytester: pytest.Pytester) -> None:
    """It fails with the time that it had, and the tests after it run."""
    pytester.makepyfile(STUCK.format(deaf=False))
    found = pytester.runpytest_inprocess("-p", "tests.gpu.time_limit", "--test-limit=0.5")
    found.assert_outcomes(passed=2, failed=1)
    found.stdout.fnmatch_lines(["*it did not end within 0.5 s*"])


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


def test_what_is_wrong_fails_and_what_is_lacking_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code and the answer of a check that fails, and of one that cannot be made."""

    def wrong() -> str:
        raise AssertionError("other bytes came back")

    def absent() -> str:
        raise device_checks.Lacking("no GPU")

    checks = {"wrong": wrong, "absent": absent}
    for name, code, found in (
        ("wrong", 1, Found("FAILED", "other bytes came back")),
        ("absent", 0, Found("lacking", "no GPU")),
    ):
        assert device_checks.answer(checks[name]) == code
        assert json.loads(capsys.readouterr().out) == asdict(found)


def test_the_page_has_a_row_for_each_part() -> None:
    """With machine, date and figures; a bar inside a figure does not split the row."""
    parts = [
        Part("memory", "64 MB there and back", Found("ok", "64 MB | equal\nboth"), 1.4),
        Part("energy", "over 0.5 s", Found("lacking", "no GPU"), 0.2),
    ]
    text = page({"gpu": "NVIDIA H200"}, "2026-11-22", parts)
    assert text.startswith("# What ran on a GPU, 2026-11-22\n")
    assert "| gpu | NVIDIA H200 |" in text
    assert "| memory: 64 MB there and back | ok | 64 MB \\| equal both | 1 |" in text
    assert summary(parts) == "2 parts in 2 s: 1 ok, 1 lacking"
    assert line(parts[1]) == "lacking energy: over 0.5 s (0 s)\n        no GPU"
