"""Absent, too old, broken and usable are four things; what a library prints and raises is handled."""

from __future__ import annotations

import errno
import importlib
import logging
import tempfile
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant.backends import Availability, runtime
from pytest_quant.backends.runtime import (
    KEPT_FILES,
    LESS_MEMORY,
    WHEELS,
    find_outdated,
    import_runtime,
    keep_text,
    memory_libraries,
    name_errors,
    quiet,
    root_cause,
    wanted_versions,
    wrap_error,
)
from pytest_quant.errors import BuildError, ModelError, UsageError
from tests.support.third_party import forget_modules

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
    result = found_in("broken_first", "no_such_module", needs=("nor_this",))
    assert result == Availability(False, reason="no_such_module and nor_this not installed", fix=INSTALL)


@pytest.mark.parametrize("place", ["on import", "when asked"])
def test_installed_and_does_not_load(packages: Path, place: str) -> None:
    """What it raises is broken, with the reason and the line that repairs it; nothing is raised."""
    kinds = (ImportError, OSError, ValueError, RuntimeError, AttributeError, TypeError, SystemError)
    for kind in kinds:
        error = f"raise {kind.__name__}('libfoo.so.1')\n"
        name = f"{kind.__name__}_{place.replace(' ', '_')}"
        (packages / f"{name}.py").write_text(error if place == "on import" else f"def answer():\n    {error}")
        reason = f"import fails: {kind.__name__}: libfoo.so.1"
        assert found_in(name) == Availability(False, reason=reason, fix=REPAIR, broken=True)


def test_too_old_is_told_before_the_import(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old wheel beside a new numpy may not load, and that is not what is wrong with it."""
    (packages / "old_runtime.py").write_text("raise ImportError('numpy is too new')\n")
    monkeypatch.setattr(runtime, "installed_version", lambda _: "0.1")
    result = found_in("old_runtime", wheels=("onnxruntime",))
    assert isinstance(result, Availability)
    assert (result.available, result.broken) == (False, False)
    assert result.reason.startswith("onnxruntime 0.1 is too old")


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


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the system's temporary folder be this test's."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def _raised(lines: int) -> Exception:
    """An error as exporters raise it: a cause, and around it one with many lines."""
    cause = TypeError("Got unsupported ScalarType BFloat16\nmore of it")
    with pytest.raises(RuntimeError) as caught:
        raise RuntimeError("\n".join(["Failed to export.", *["a line of the stack"] * lines])) from cause
    return caught.value


def test_the_message_is_short_and_the_file_is_whole() -> None:
    """Step, the first line of the error that began it, what to do, and a file that holds the traceback."""
    result = wrap_error("exporting tiny to ONNX failed", _raised(300), fix="write module.float()")
    text = str(result)
    assert len(text.splitlines()) == 4
    assert text.startswith("exporting tiny to ONNX failed\n  got: TypeError: Got unsupported ScalarType BFloat16\n")
    assert "next: write module.float()" in text
    assert "Traceback" not in text
    assert result.log is not None
    assert result.log in text
    whole = Path(result.log).read_text(encoding="utf-8")
    assert whole.startswith("exporting tiny to ONNX failed\n")
    assert "Traceback (most recent call last)" in whole
    assert whole.count("\na line of the stack") == 300


def test_an_error_without_words_is_told_by_its_type() -> None:
    """``KeyError()`` says nothing; its name does."""
    assert root_cause(KeyError()) == "KeyError"
    assert root_cause(ValueError("\n\n  second line first \n")) == "ValueError: second line first"


def test_our_own_errors_pass() -> None:
    """They are clear already; whatever else is raised is turned, and chained for a debugger."""
    with pytest.raises(UsageError, match="as it is"), name_errors("a step failed"):
        raise UsageError("as it is")
    with pytest.raises(BuildError, match="a step failed") as caught, name_errors("a step failed"):
        raise ZeroDivisionError("1/0")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.fix
    assert isinstance(wrap_error("no module", ValueError(), kind=ModelError), ModelError)


def test_the_same_failure_has_one_file_and_few_are_kept(temporary: Path) -> None:
    """A suite that fails every night does not fill the disk; the folder is the user's own."""
    first = keep_text("the same")
    assert keep_text("the same") == first
    for number in range(KEPT_FILES + 20):
        keep_text(f"failure {number}")
    (folder,) = temporary.iterdir()
    assert len(list(folder.iterdir())) == KEPT_FILES
    assert folder.stat().st_mode & 0o077 == 0


def test_a_folder_that_is_not_ours_is_not_written(temporary: Path) -> None:
    """A link in a shared folder could lead anywhere: the message stays, without a file."""
    file = keep_text("first")
    assert file is not None
    folder, elsewhere = file.parent, temporary / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    assert keep_text("second") is None
    assert list(elsewhere.iterdir()) == [elsewhere / file.name]


def test_where_nothing_can_be_written_the_message_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A full disk must not hide the failure."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    result = wrap_error("a step failed", ValueError("why"))
    assert result.log is None
    assert str(result) == "a step failed\n  got: ValueError: why"


def test_the_noise_of_a_library_stays_off_the_screen(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prints, warnings and log lines; what ONNX Runtime logs as an error is given, and afterwards all is as before."""
    library, root = logging.getLogger("noisy_library"), logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    with quiet("noisy_library") as errors:
        print("a progress bar")  # noqa: T201
        warnings.warn("deprecated", stacklevel=1)
        library.error("a stack of lines")
        logging.basicConfig()
        logging.getLogger("onnxruntime.quantization").error("not quantized")
        logging.getLogger("onnxruntime.quantization").warning("slow")
    assert errors == ["not quantized"]
    assert (library.level, root.handlers) == (logging.NOTSET, [])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("bfc_arena.cc:360 AllocateRawInternal Failed to allocate memory for requested buffer of size 9"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        MemoryError(),
        MemoryError("Unable to allocate 64.0 TiB for an array with shape (17592186044416,)"),
    ],
    ids=["onnxruntime", "openvino", "torch", "cuda", "python", "numpy"],
)
def test_memory_that_ran_out_is_told_as_that(error: Exception) -> None:
    """As each runtime writes it, with what needs less in place of advice about operators."""
    with pytest.raises(BuildError) as raised, name_errors("a run of ort-int8 failed", "leave the node in float"):
        raise error
    assert raised.value.what == "no memory was left: a run of ort-int8 failed"
    assert raised.value.fix == LESS_MEMORY


def test_what_filled_the_memory_is_let_go() -> None:
    """Frames of the library would hold it while the error is shown; the text has their lines all the same."""

    def allocate() -> None:
        filling = np.ones(1000)
        held.append(weakref.ref(filling))
        raise MemoryError

    held: list[weakref.ref[Any]] = []
    with pytest.raises(BuildError, match="no memory was left") as raised, name_errors("a run of ort-int8 failed"):
        allocate()
    assert held[0]() is None
    assert "in allocate" in Path(str(raised.value.log)).read_text("utf-8")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_as_that(number: int) -> None:
    """It is no refusal of the runtime; any other error of a file is what it was."""
    with pytest.raises(BuildError) as raised, name_errors("ONNX Runtime refused to calibrate m"):
        raise OSError(number, "No space left on device", "x.onnx")
    assert raised.value.what == "no room is left on the disk"
    assert "x.onnx" in (raised.value.value or "")
    assert "TMPDIR" in (raised.value.fix or "")
    with pytest.raises(BuildError, match="reading failed"), name_errors("reading failed"):
        raise FileNotFoundError(errno.ENOENT, "No such file", "x.onnx")
