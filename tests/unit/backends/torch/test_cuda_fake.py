"""What Inductor needs on a GPU beside torch, on a fake torch that finds one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_quant.backends.torch import cuda
from pytest_quant.spec import EngineSpec, Model

SPEC = EngineSpec("torch-cuda", "fp32", None, Model("net"))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A GPU with torch, triton, gcc and Python's headers; the folder of the last two."""
    result = SimpleNamespace(
        __version__="2.13.0",
        version=SimpleNamespace(cuda="13.0"),
        cuda=SimpleNamespace(is_available=lambda: True, get_device_name=lambda _: "A GPU"),
    )
    monkeypatch.setattr(cuda, "find_spec", lambda _: SimpleNamespace())
    monkeypatch.setattr(cuda, "import_torch", lambda: result)
    monkeypatch.setattr(cuda, "has_nvml", lambda: True)
    monkeypatch.setattr("sysconfig.get_path", lambda *_: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    (tmp_path / "gcc").touch(mode=0o755)
    (tmp_path / "Python.h").touch()
    return tmp_path


def test_fake_machine_that_has_everything(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of gcc, clang and the variable CC is enough, as triton looks for them."""
    assert cuda.find_device(SPEC).available
    (machine / "gcc").rename(machine / "clang")
    assert cuda.find_device(SPEC).available
    (machine / "clang").unlink()
    monkeypatch.setenv("CC", "/opt/cc")
    assert cuda.find_device(SPEC).available


@pytest.mark.parametrize(
    ("missing", "named", "fix"),
    [("gcc", "a C compiler, gcc or clang", "apt-get install gcc"), ("Python.h", "Python.h", "python3-dev")],
)
def test_fake_machine_without_what_triton_compiles_with(machine: Path, missing: str, named: str, fix: str) -> None:
    """A slim image has neither: triton compiles a module for the driver before its first kernel, and fails there."""
    (machine / missing).unlink()
    result = cuda.find_device(SPEC)
    assert (result.available, result.broken) == (False, False)
    assert named in result.reason
    assert fix in result.fix
    assert "'compiled': False" in result.fix
    eager = EngineSpec("torch-cuda", "fp32", None, Model("net"), options=(("compiled", False),))
    assert cuda.find_device(eager).available
    assert cuda.find_device(None).available
