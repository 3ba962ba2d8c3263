"""Not installed, broken and usable are three things."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_quant.backends import Availability, runtime, trt
from pytest_quant.backends.ort import OrtBackend, find_runtime, libraries
from pytest_quant.backends.ort.libraries import find_provider
from pytest_quant.backends.runtime import wanted_versions
from pytest_quant.backends.trt import TrtRtxBackend


@pytest.mark.parametrize(
    ("wheel", "ask"),
    [
        ("onnxruntime", find_runtime),
        ("onnxruntime-gpu", find_runtime),
        ("onnxruntime-gpu", lambda: find_provider("CUDAExecutionProvider")),
        ("onnxruntime", TrtRtxBackend().availability),
    ],
    ids=["ort", "ort on the GPU wheel", "ort-cuda", "trt-rtx"],
)
def test_too_old_by_a_simulated_version_number(
    wheel: str, ask: Callable[[], Availability], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version below what the metadata ask for cannot run, which is no error, and the line brings a newer one."""
    (wanted,) = wanted_versions(wheel)
    old = f"{wanted.version}.dev1"
    for module in (runtime, libraries):
        monkeypatch.setattr(module, "installed_version", lambda asked: old if asked == wheel else "")
    monkeypatch.setattr(trt, "find_spec", lambda _: object())
    found = ask()
    assert (found.available, found.broken) == (False, False)
    assert found.reason == f"{wheel} {old} is too old: {wheel}>={wanted.version} runs"
    extra = "gpu" if wheel == "onnxruntime-gpu" else "ort"
    assert found.fix == f'pip install "pytest-quant[{extra}]"'


def test_empty_namespace(tmp_path: Path) -> None:
    """The empty folder that uninstalling one of two onnxruntime wheels leaves is broken, not installed."""
    (tmp_path / "onnxruntime").mkdir()
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.modules['onnx'] = type(sys)('onnx')\n"
        "import importlib.machinery as m\n"
        "sys.path = [p for p in sys.path if 'site-packages' not in p or p.endswith('pytest_quant')]\n"
        "from pytest_quant.backends.ort import find_runtime; print(find_runtime())\n"
    )
    root = Path(runtime.__file__).parents[2]
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
