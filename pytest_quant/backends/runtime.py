"""Runtimes: whether they are installed, new enough and load, their output, and their errors as errors of ours.

An exporter or a quantizer fails with hundreds of lines. The message shows the step and the first of them; the whole,
with the traceback, goes into a file that the message names. Backends do not know the cache, so the file lies in a
folder of the user's own below the system's temporary one. Its name is made from its text, so that the same failure
writes one file, and only the latest are kept.
"""

from __future__ import annotations

import errno
import hashlib
import io
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from logging.handlers import BufferingHandler
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pytest_quant.backends.offer import Availability
from pytest_quant.environment.gpu import driver_cuda
from pytest_quant.environment.machine import version
from pytest_quant.errors import BuildError, QuantError
from pytest_quant.files import own_folder, write_whole

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

_BROKEN_IMPORT = (ImportError, OSError, RuntimeError, AttributeError, ValueError, TypeError, SystemError)
"""What a package that is installed and does not load raises: a missing library, another numpy, half an upgrade."""

_FIRST_DRIVER = {12: "driver 525", 13: "driver 580"}
"""Of each major version of CUDA, by the release notes; within one, newer wheels run on older drivers."""


_INSTALL = {"onnxruntime": 'pip install "pytest-quant[ort]"', "onnxruntime-gpu": 'pip install "pytest-quant[gpu]"'}
"""Line that brings a new enough version of a wheel."""

WHEELS = tuple(_INSTALL)

KEPT_FILES = 50

_LINES_SHOWN = 4

_LETTERS_SHOWN = 600

_NO_MEMORY = re.compile(r"bad_alloc|bfc_arena|Failed to allocate|[Oo]ut of memory|allocate memory|Unable to allocate")
"""What ONNX Runtime, OpenVINO, PyTorch, CUDA and numpy write; most of them raise the error that they raise for all."""

LESS_MEMORY = (
    "in the mark, eval_batch_size=1 and fewer samples to calibrate on, calibration={'samples': 16}, need less; so do "
    "fewer workers at once, -n 1"
)

_NEXT = "read the end of that file; run the float model alone in its runtime first"


_MEMORY = {"cuda-bindings": "cuda.bindings.runtime", "pycuda": "pycuda"}
"""A module of each library for device memory, the preferred one first. Other packages of NVIDIA have ``cuda`` too."""


def memory_libraries() -> tuple[str, ...]:
    """Return the libraries for device memory that are installed, the preferred library first; loads no library."""
    return tuple(name for name, module in _MEMORY.items() if _is_installed(module))


def import_runtime(
    *modules: str,
    install: str,
    repair: str,
    ask: Callable[[Any], Any] = lambda module: module,
    needs: Sequence[str] = (),
    wheels: Sequence[str] = (),
) -> Any:
    """Import `modules` and return what `ask` gets from the first of them, or why the runtime cannot be used.

    Parameters
    ----------
    install : the command that installs the runtime.
    repair : the command that repairs one that does not load.
    ask : is called with the first module, by default for the module itself; what it raises counts as a runtime that
        does not load.
    needs : modules that are only looked for, as they take long to import.
    wheels : distributions that must be as new as our metadata ask for, where they are installed.

    Returns
    -------
    The answer; or an `Availability` that is not available: absent or too old, which is no error, or `broken`.
    """
    missing = [name for name in (*modules, *needs) if not _is_installed(name)]
    if missing:
        return Availability(False, reason=f"{' and '.join(missing)} not installed", fix=install)
    if outdated := find_outdated(*wheels):
        return outdated
    try:
        first, *_ = [import_module(name) for name in modules]
        return ask(first)
    except _BROKEN_IMPORT as error:
        reason = f"import fails: {type(error).__name__}: {error}"
        return Availability(False, reason=reason, fix=repair, broken=True)


def _is_installed(name: str) -> bool:
    """A module that is loaded without a spec counts: then it is its content that is looked at."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the package that a dotted name begins with
        return False
    except ValueError:
        return True


def find_outdated(*wheels: str) -> Availability | None:
    """Return why an installed one of `wheels` cannot be used, ``None`` when none is too old.

    Only metadata are read, and they are read before the import: an old wheel with a new numpy does not load, and would
    be reported as broken.
    """
    for wheel in wheels:
        installed = installed_version(wheel)
        if installed and not wanted_versions(wheel).contains(installed, prereleases=True):
            reason = f"{wheel} {installed} is too old: {wheel}{wanted_versions(wheel)} runs"
            return Availability(False, reason=reason, fix=_INSTALL[wheel])
    return None


def driver_too_old(wheels: Mapping[str, str], otherwise: str) -> Availability | None:
    """Return why the driver cannot run some of `wheels`; ``None`` if it can, or if that is unknown.

    Parameters
    ----------
    wheels : the version of CUDA that each wants, such as ``13.0``, by its name and version; empty where not known.
    otherwise : what to do where the driver must stay, after "or".
    """
    driver = driver_cuda()
    if driver is None:
        return None
    version, cuda = driver
    majors = ((name, int(wants.partition(".")[0])) for name, wants in wheels.items() if wants)
    newer = {name: wants for name, wants in majors if wants > cuda // 1000}
    if not newer:
        return None
    most = max(newer.values())
    want = f"{' and '.join(newer)} want{'s' if len(newer) == 1 else ''} {most}"
    reason = f"driver {version} has CUDA {cuda // 1000}.{cuda % 1000 // 10}, and {want}"
    fix = f"{_FIRST_DRIVER.get(most, f'a driver with CUDA {most}')} or later, or {otherwise}"
    return Availability(False, reason=reason, fix=fix)


def installed_version(distribution: str) -> str:
    """Return the version of a distribution, empty if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


@cache
def wanted_versions(distribution: str) -> SpecifierSet:
    """Return the versions that our metadata ask for; any version if this package is not installed."""
    # Here, because a backend is registered at every start and asked about its runtime only for a mark.
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    try:
        lines = requires("pytest-quant") or []
    except PackageNotFoundError:
        return SpecifierSet()
    specifiers = (requirement.specifier for requirement in map(Requirement, lines) if requirement.name == distribution)
    return next(specifiers, SpecifierSet())


def root_cause(error: BaseException) -> str:
    """Return the type and the first line of the text of `error`; of a chain, those of its first error."""
    first = error
    while first.__cause__ is not None:
        first = first.__cause__
    lines = [line.strip() for line in str(first).splitlines() if line.strip()]
    return f"{type(first).__name__}: {lines[0]}" if lines else type(first).__name__


def wrap_error(
    what: str,
    error: BaseException | str,
    *,
    value: str | None = None,
    fix: str | None = None,
    kind: type[QuantError] = BuildError,
) -> QuantError:
    """Return the error to raise in place of `error`, which a library raised.

    Parameters
    ----------
    what : the step that failed, in words; it begins the message.
    error : the exception of the library; or everything that it wrote, where it left no exception, as one in another
        process does. The file that the message names gets the traceback or that text.
    value : the library's own words, of which the first lines are shown, up to a traceback; ``None`` for those of
        `error`, see `root_cause`.
    fix : what the user can do; ``None`` where nothing is known to help. Where memory or the disk is full, the message
        says so in place of `what`, and what helps then.
    kind : class of the error that is returned.
    """
    words = value or (error if isinstance(error, str) else root_cause(error))
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        what, words, fix = "no room is left on the disk", str(error), "make room, or set TMPDIR to a folder with more"
    elif isinstance(error, MemoryError) or _NO_MEMORY.search(words):
        what, fix = f"no memory was left: {what}", LESS_MEMORY
        # What the library's frames hold is in the way of whoever shows the error.
        traceback.clear_frames(None if isinstance(error, str) else error.__traceback__)
    text = error if isinstance(error, str) else "".join(traceback.format_exception(error))
    log = keep_text(f"{what}\n\n{text}")
    return kind(what, value=_cut_traceback(words), fix=fix, log=None if log is None else str(log))


@contextmanager
def replace_errors(replacement: Callable[[Exception], QuantError]) -> Iterator[None]:
    """Turn whatever is raised in the block, except our own errors, into what `replacement` returns for it."""
    try:
        yield
    except QuantError:
        raise
    except Exception as error:
        raise replacement(error) from error


def name_errors(what: str, fix: str = _NEXT, kind: type[QuantError] = BuildError) -> AbstractContextManager[None]:
    """Turn whatever is raised in the block, except our own errors, into a `kind` whose message is `what`."""
    return replace_errors(lambda error: wrap_error(what, error, fix=fix, kind=kind))


@contextmanager
def quiet(*loggers: str) -> Iterator[list[str]]:
    """Keep what a library prints, logs and warns of in the block off the screen.

    The list that is given holds, once the block has ended, what ONNX Runtime logged as errors.
    The root logger has a handler meanwhile: a module that calls ``logging.basicConfig`` when it is imported then
    changes nothing, and the user's logging stays as it was.

    Parameters
    ----------
    loggers : names of the library's own loggers, which would write past the root logger.
    """
    errors: list[str] = []
    handler = BufferingHandler(10_000)
    handler.setLevel(logging.ERROR)
    root, silenced = logging.getLogger(), [logging.getLogger(name) for name in loggers]
    before = [logger.level for logger in silenced]
    root.addHandler(handler)
    for logger in silenced:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(action="ignore"), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield errors
    finally:
        root.removeHandler(handler)
        for logger, level in zip(silenced, before, strict=True):
            logger.setLevel(level)
        errors += [line.getMessage() for line in handler.buffer if line.name.startswith("onnxruntime")]


@contextmanager
def tools_without_torch() -> Iterator[None]:
    """Let `onnxruntime.tools` be imported without PyTorch in here, and be forgotten afterwards.

    The package imports PyTorch, where it is installed, for a helper that shape inference never calls: seconds of
    every build and hundreds of megabytes. An empty module stands in the place of that helper. Whoever imports the
    package later gets it whole. Where either is loaded already, nothing is done.
    """
    package, helper = "onnxruntime.tools", "onnxruntime.tools.pytorch_export_helpers"
    if "torch" in sys.modules or package in sys.modules:
        yield
        return
    placeholder = ModuleType(helper)
    vars(placeholder)["infer_input_info"] = None
    sys.modules[helper] = placeholder
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
            del sys.modules[name]
        vars(import_module("onnxruntime")).pop("tools", None)


def keep_text(text: str) -> Path | None:
    """Write `text` into a file of its own and return it; ``None`` if nothing can be written.

    What a folder holds that belongs to someone else could be read there, so that nothing is written into one.
    """
    content = text.encode("utf-8", "replace")
    name = hashlib.sha256(content).hexdigest()[:12]
    try:
        folder = own_folder("errors")
        file = folder / f"{name}.txt"
        write_whole(file, content)
        files = sorted(folder.glob("*.txt"), key=lambda file: file.stat().st_mtime, reverse=True)
        for old in files[KEPT_FILES:]:
            old.unlink(missing_ok=True)
    except OSError:
        return None
    return file


def _cut_traceback(text: str) -> str:
    """Return the first lines, up to where a traceback begins; the rest is in the file."""
    lines = [line for line in text.splitlines() if line.strip()]
    begins = next((place for place, line in enumerate(lines) if line.startswith("Traceback (most recent")), len(lines))
    shown = "\n".join(lines[:begins][:_LINES_SHOWN]) or "nothing but a traceback"
    return shown if len(shown) <= _LETTERS_SHOWN else f"{shown[:_LETTERS_SHOWN]} ..."
