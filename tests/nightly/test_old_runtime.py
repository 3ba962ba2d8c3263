"""An ONNX Runtime older than what the project asks for, of the real wheels: skipped with the line that helps."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.integration.projects import run_elsewhere
from tests.support.example import ROOT

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
(FLOOR,) = (
    part.version for one in map(Requirement, EXTRAS["ort"]) if one.name == "onnxruntime" for part in one.specifier
)


OLD = [
    pytest.param(f"onnxruntime<{FLOOR}", id="the last that is too old"),
    pytest.param(
        "onnxruntime<1.17",
        id="one that does not load beside numpy 2",
        marks=pytest.mark.skipif(sys.version_info >= (3, 12), reason="such an old one has wheels up to Python 3.11"),
    ),
]


@pytest.fixture(scope="module", params=OLD)
def old_runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with an old wheel in front of everything else that is installed here."""
    folder = tmp_path_factory.mktemp("old") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary=:all:", "--target", str(site)]
    subprocess.run([*command, request.param], check=True, capture_output=True)
    (site / "rest.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    return folder / "bin" / "python"


@pytest.mark.parametrize(("arguments", "outcome"), [((), "1 skipped"), (("--quant-require=ort",), "1 failed")])
def test_too_old_is_unavailable(old_runtime: Path, tmp_path: Path, arguments: tuple[str, ...], outcome: str) -> None:
    """The check is UNAVAILABLE, and a failure only where the backend is required; no traceback in either case."""
    result, (check,) = run_elsewhere(old_runtime, tmp_path, "max_drop=5.0", "-rs", *arguments)
    said = result.stdout
    assert outcome in said
    assert "Traceback" not in said
    assert f"is too old: onnxruntime>={FLOOR} runs" in said
    assert 'pip install "pytest-quant[ort]"' in said
    assert check["status"] == "UNAVAILABLE"
