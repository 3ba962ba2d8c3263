"""An ONNX Runtime older than what the project asks for, of the real wheels: skipped with the line that helps."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.integration.projects import CONFTEST, DATA, TEST
from tests.support import models
from tests.support.example import environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
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
    models.select_first(tmp_path / "model.onnx")
    (tmp_path / "conftest.py").write_text(CONFTEST.format(model="model.onnx", data=DATA))
    (tmp_path / "test_model.py").write_text(TEST.format(mark="max_drop=5.0", body="pass"))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [
        str(old_runtime),
        "-m",
        "pytest",
        "-rs",
        "-p",
        "no:cacheprovider",
        "--quant-no-latency",
        "--quant-json=run.json",
    ]
    ran = subprocess.run(
        [*command, *arguments],
        cwd=tmp_path,
        env=environment() | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    said = ran.stdout + ran.stderr
    assert outcome in said
    assert "Traceback" not in said
    assert f"is too old: onnxruntime>={FLOOR} runs" in said
    assert 'pip install "pytest-quant[ort]"' in said
    (check,) = json.loads((tmp_path / "run.json").read_text())["checks"]
    assert check["status"] == "UNAVAILABLE"
