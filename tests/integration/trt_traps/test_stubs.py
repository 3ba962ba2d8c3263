"""Our calls of native TensorRT against the published stubs of its binding: the nearest thing to running them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_quant.backends import trt

pytest.importorskip("mypy")
STUBS = "tensorrt-stubs==10.13.0.35.1"
OURS = Path(trt.__file__).parent


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stubs, without the runtime that they pin, and with the five lines put right that are not Python."""
    folder = tmp_path_factory.mktemp("stubs")
    command = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), STUBS)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if ended.returncode:
        pytest.skip(f"{STUBS} could not be installed: {ended.stderr.strip()[-200:]}")
    file = folder / "tensorrt_bindings" / "tensorrt.pyi"
    text = re.sub(r"\bin: list", "in_: list", file.read_text(encoding="utf-8"))
    file.write_text(text.replace("channel_axis: int) ->", "channel_axis: int = ...) ->"), encoding="utf-8")
    return folder


def checked(stubs: Path, file: Path) -> list[str]:
    """Return what mypy has to say about `file` where TensorRT's types are known; the stubs' own faults are left out."""
    ended = subprocess.run(
        (
            sys.executable, "-m", "mypy", "--strict", "--no-warn-unused-ignores", "--config-file", os.devnull,
            "--ignore-missing-imports", "--follow-imports", "silent", "--no-error-summary",
            "--cache-dir", str(stubs / "cache"), str(file),
        ),
        capture_output=True, text=True, timeout=300, check=False, env={**os.environ, "MYPYPATH": str(stubs)},
    )  # fmt: skip
    return [line for line in ended.stdout.splitlines() if ": error:" in line and "tensorrt_bindings" not in line]


@pytest.mark.slow
def test_every_call_exists_with_those_arguments(stubs: Path) -> None:
    """In the modules that build, calibrate, run and inspect."""
    assert checked(stubs, OURS) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("context.execute_async_v4(1)", 'has no attribute "execute_async_v4"'),
        ("context.set_input_shape('x', 'y')", "No overload variant"),
        ("context.execute_async_v3('stream')", "incompatible type"),
    ],
)
def test_a_wrong_call_would_be_seen(stubs: Path, tmp_path: Path, line: str, message: str) -> None:
    """Else the test above could not fail."""
    file = tmp_path / "wrong.py"
    file.write_text(f"import tensorrt\ndef f(context: tensorrt.IExecutionContext) -> None:\n    {line}\n")
    assert any(message in said for said in checked(stubs, file))
