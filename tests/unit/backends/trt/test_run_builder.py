"""How the building process ended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_quant.backends.trt.run_builder import (
    LOG_FILE,
    BuildRequest,
    build_notes,
    run_builder,
    write_log,
)
from pytest_quant.errors import BuildError
from pytest_quant.measure.steps import Steps


def request(folder: Path, module: str = "tensorrt_rtx") -> BuildRequest:
    """A request whose answers go into `folder`."""
    return BuildRequest(module, str(folder / "model.onnx"), str(folder), "SM89", None, None)


def test_a_runtime_that_does_not_load(tmp_path: Path) -> None:
    """The import's own message is shown."""
    with pytest.raises(BuildError, match="No module named 'no_such_runtime'"):
        run_builder(request(tmp_path, "no_such_runtime"), "engine")


def test_a_crash_is_an_error_and_not_the_end_of_pytest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal is named, and the last lines of the log are shown."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"\n'
    )
    python.chmod(0o755)
    (tmp_path / LOG_FILE).write_text("[VERBOSE] about to do something\n")
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(BuildError, match=r"did not build engine: it crashed \(SIGSEGV\)") as caught:
        run_builder(request(tmp_path), "engine")
    assert "about to do something" in str(caught.value)


def test_a_build_that_takes_too_long(tmp_path: Path) -> None:
    """The limit, what the builder was at, and what makes builds shorter; not a traceback of subprocess."""
    (tmp_path / LOG_FILE).write_text("[VERBOSE] about to do something\n")
    with pytest.raises(BuildError, match=r"did not build engine: it took more than 0\.01 s, and was ended") as caught:
        run_builder(request(tmp_path), "engine", limit_s=0.01)
    assert "about to do something" in str(caught.value)
    assert "optimization_level" in str(caught.value)


def test_the_limit_of_the_session_ends_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that hangs is ended, and the check is an error that names the option; pytest goes on."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "import signal; signal.pause()"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    ended: list[int] = []
    steps = Steps(print, 0.1, end=ended.append)
    with (
        pytest.raises(BuildError, match=r"building engine did not end within 0\.1 s") as caught,
        steps.bounded("building engine"),
    ):
        run_builder(request(tmp_path), "engine")
    assert "--quant-step-timeout" in str(caught.value)
    assert not ended, "this process"


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        ([], None),
        (["conv1"], "1 tensor has no scale"),
        (["conv1", "conv2"], "2 tensors have no scale"),
    ],
)
def test_tensors_without_a_scale_are_counted(tmp_path: Path, lines: list[str], note: str | None) -> None:
    """TensorRT warns of each and goes on; the note says what that means."""
    told = [f"[WARNING] Missing scale and zero-point for tensor {name}, expect fall back" for name in lines]
    write_log(tmp_path, "\n".join(["[INFO] parsing", *told]))
    found = build_notes(tmp_path)
    assert len(found) == (note is not None)
    assert all(note in line and "may stay in float" in line for line in found if note)
