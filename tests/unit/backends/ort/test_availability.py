"""Not installed, broken and usable are three things."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pytest_quant.backends.ort import OrtBackend, availability
from pytest_quant.backends.ort.availability import find_runtime


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing module is no error: it is unavailable, with the line that installs it."""
    monkeypatch.setattr(availability, "find_spec", lambda name: None if name == "onnx" else object())
    found = find_runtime()
    assert (found.available, found.broken) == (False, False)
    assert found.reason == "onnx not installed"
    assert found.fix == 'pip install "pytest-quant[ort]"'


@pytest.mark.parametrize(
    "error", [ImportError("libfoo.so.1"), OSError("bad ELF"), ValueError("numpy.dtype size changed")]
)
def test_installed_and_does_not_load(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """An import that fails is broken, with the reason and the line that repairs it; nothing is raised."""

    def fail(name: str) -> ModuleType:
        raise error

    monkeypatch.setattr(availability, "find_spec", lambda _: object())
    monkeypatch.setattr(availability, "import_module", fail)
    found = find_runtime()
    assert (found.available, found.broken) == (False, True)
    assert str(error) in found.reason
    assert "--force-reinstall" in found.fix


def test_empty_namespace(tmp_path: Path) -> None:
    """The empty folder that uninstalling one of two onnxruntime wheels leaves is broken, not installed."""
    (tmp_path / "onnxruntime").mkdir()
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.modules['onnx'] = type(sys)('onnx')\n"
        "import importlib.machinery as m\n"
        "sys.path = [p for p in sys.path if 'site-packages' not in p or p.endswith('pytest_quant')]\n"
        "from pytest_quant.backends.ort.availability import find_runtime; print(find_runtime())\n"
    )
    root = Path(availability.__file__).parents[3]
    site = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    (tmp_path / "numpy").symlink_to(site / "numpy")
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(root)}
    ).stdout
    assert "available=False" in found
    assert "broken=True" in found
    assert "without InferenceSession" in found
    assert "--force-reinstall" in found


def test_backend_imports_no_runtime() -> None:
    """Making the backend and checking a spec load neither onnxruntime nor onnx."""
    program = (
        "import sys; from pathlib import Path; from pytest_quant.backends.ort import OrtBackend\n"
        "from pytest_quant.spec import EngineSpec, Model\n"
        "OrtBackend().check(EngineSpec('ort', 'int8', 'static', Model('m', Path('m.onnx'))))\n"
        "print([name for name in ('onnxruntime', 'onnx') if name in sys.modules])\n"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"


def test_here() -> None:
    """In this environment it is available on the CPU."""
    pytest.importorskip("onnxruntime")
    found = OrtBackend().availability()
    assert (found.available, found.device) == (True, "cpu")
