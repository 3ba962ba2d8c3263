"""Our calls of native TensorRT against stubs made from its real bindings, of versions 10 and 11."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_quant.backends import trt
from tests.support import tensorrt_bindings

pytestmark = pytest.mark.slow
pytest.importorskip("mypy")
OURS = Path(trt.__file__).parent


@pytest.fixture(scope="module", params=tensorrt_bindings.MAJORS)
def stubs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """A major version, and the folder of its stubs."""
    folder = tmp_path_factory.mktemp(f"stubs{request.param}")
    tensorrt_bindings.write_stubs(tensorrt_bindings.install(folder, request.param), folder)
    return request.param, folder


def checked(folder: Path, file: Path) -> list[str]:
    """Return what mypy has to say about `file` where TensorRT's types are known; the stubs' own faults are left out."""
    configuration = folder / "mypy.ini"
    configuration.write_text("[mypy]\n")
    ended = subprocess.run(
        (
            sys.executable, "-m", "mypy", "--strict", "--no-warn-unused-ignores", "--config-file", str(configuration),
            "--ignore-missing-imports", "--follow-imports", "silent", "--no-error-summary",
            "--cache-dir", str(folder / "cache"), str(file),
        ),
        capture_output=True, text=True, timeout=300, check=False, env={**os.environ, "MYPYPATH": str(folder)},
    )  # fmt: skip
    return [line for line in ended.stdout.splitlines() if ": error:" in line and "tensorrt/__init__.pyi" not in line]


def test_every_call_exists_with_those_arguments(stubs: tuple[int, Path]) -> None:
    """In the modules that build, calibrate, run and inspect; version 11 has no calibrators, and lacks nothing else."""
    major, folder = stubs
    found = checked(folder, OURS)
    missed = {name for line in found for name in re.findall(r'has no attribute "(\w+)"', line)}
    assert missed == (set() if major == 10 else {"int8_calibrator", "set_calibration_profile"}), found
    assert len(found) == len(missed), found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("context.execute_async_v4(1)", 'has no attribute "execute_async_v4"'),
        ("context.set_input_shape('x', 'y')", "No overload variant"),
        ("context.execute_async_v3('stream')", "incompatible type"),
    ],
)
def test_a_wrong_call_would_be_seen(stubs: tuple[int, Path], tmp_path: Path, line: str, message: str) -> None:
    """Else the test above could not fail."""
    _, folder = stubs
    file = tmp_path / "wrong.py"
    file.write_text(f"import tensorrt\ndef f(context: tensorrt.IExecutionContext) -> None:\n    {line}\n")
    assert any(message in said for said in checked(folder, file)), checked(folder, file)
