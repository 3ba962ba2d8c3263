"""Absent, too old, broken and usable are four things."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_quant.backends import runtime
from pytest_quant.backends.base import Availability
from pytest_quant.backends.runtime import WHEELS, find_outdated, import_runtime, memory_libraries, wanted_versions
from tests.support.planted_modules import forget_modules

INSTALL, REPAIR = "pip install it", "pip install --force-reinstall it"


def found_in(*modules: str, needs: tuple[str, ...] = (), wheels: tuple[str, ...] = ()) -> object:
    """Ask the first of `modules` for its answer."""
    return import_runtime(
        *modules, ask=lambda module: module.answer(), install=INSTALL, repair=REPAIR, needs=needs, wheels=wheels
    )


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, for modules that the test writes."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    forget_modules("cuda")


def test_what_the_first_module_answers(packages: Path) -> None:
    """The others are imported too, and what is needed beside them is only looked for."""
    (packages / "quick_runtime.py").write_text("def answer():\n    return 'here'\n")
    (packages / "slow_package.py").write_text("raise OSError('it was imported')\n")
    assert found_in("quick_runtime", "json", needs=("slow_package",)) == "here"
    assert isinstance(found_in("quick_runtime", "slow_package"), Availability)


def test_absent(packages: Path) -> None:
    """It is no error: each module that is missing is named, with the line that installs them, and none is imported."""
    (packages / "broken_first.py").write_text("raise OSError('it was imported')\n")
    found = found_in("broken_first", "no_such_module", needs=("nor_this",))
    assert found == Availability(False, reason="no_such_module and nor_this not installed", fix=INSTALL)


@pytest.mark.parametrize(
    "error",
    [
        "ImportError('libfoo.so.1')",
        "OSError('bad ELF')",
        "ValueError('numpy.dtype size changed')",
        "RuntimeError('compiled against another ABI')",
        "AttributeError('no attribute float_')",
        "TypeError('descriptors cannot be created')",
        "SystemError('initialization raised')",
    ],
)
@pytest.mark.parametrize("place", ["on import", "when asked"])
def test_installed_and_does_not_load(packages: Path, error: str, place: str) -> None:
    """What it raises is broken, with the reason and the line that repairs it; nothing is raised."""
    text = f"raise {error}\n" if place == "on import" else f"def answer():\n    raise {error}\n"
    kind, _, words = error.partition("(")
    name = f"{kind}_{place.replace(' ', '_')}"
    (packages / f"{name}.py").write_text(text)
    reason = f"import fails: {kind}: {words.strip(chr(39) + ')')}"
    assert found_in(name) == Availability(False, reason=reason, fix=REPAIR, broken=True)


def test_too_old_is_told_before_the_import(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old wheel beside a new numpy may not load, and that is not what is wrong with it."""
    (packages / "old_runtime.py").write_text("raise ImportError('numpy is too new')\n")
    monkeypatch.setattr(runtime, "installed_version", lambda _: "0.1")
    found = found_in("old_runtime", wheels=("onnxruntime",))
    assert isinstance(found, Availability)
    assert (found.available, found.broken) == (False, False)
    assert found.reason.startswith("onnxruntime 0.1 is too old")


def test_a_wheel_that_is_not_installed_is_not_too_old() -> None:
    """Another wheel may have brought the module."""
    assert find_outdated("onnxruntime-no-such-wheel") is None


def test_the_lowest_version_itself_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of each wheel is declared, and what it names is not too old."""
    for wheel in WHEELS:
        (wanted,) = wanted_versions(wheel)
        monkeypatch.setattr(runtime, "installed_version", lambda _, version=wanted.version: version)
        assert find_outdated(wheel) is None


def test_a_package_of_nvidia_is_no_library_for_device_memory(packages: Path) -> None:
    """`cuda-pathfinder`, which much depends on, has a package `cuda` too; cuda-bindings are taken before pycuda."""
    (packages / "cuda" / "pathfinder").mkdir(parents=True)
    (packages / "pycuda.py").write_text("raise RuntimeError('nothing is loaded')")
    importlib.invalidate_caches()
    assert memory_libraries() == ("pycuda",)
    (packages / "cuda" / "bindings").mkdir()
    (packages / "cuda" / "bindings" / "runtime.py").write_text("raise RuntimeError('nothing is loaded')")
    importlib.invalidate_caches()
    assert memory_libraries() == ("cuda-bindings", "pycuda")
