"""Linux as if it were macOS or Windows, for the package alone: a `sitecustomize` of processes that tests start.

``EMULATED_SYSTEM`` is ``darwin`` or ``windows``. The modules of the package see a standard library without what that
system lacks, and their calls, through the standard library too, are refused what it refuses. Libraries, pytest and the
tests keep what Linux has. What stays as on Linux is the name of the system, the separator of folders, shells, the
rights of files, and everything that is compiled.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

PACKAGE = "pytest_quant"
_FOUND = importlib.util.find_spec(PACKAGE)
_FOLDER = str(Path(_FOUND.origin).parent) + os.sep if _FOUND and _FOUND.origin else os.devnull
_LIBRARIES = f"{os.sep}site-packages{os.sep}"

_LACKS_OS = ("fdatasync", "memfd_create", "posix_fadvise", "sched_getaffinity", "sched_setaffinity", "waitid")
_LACKS: dict[str, dict[str, tuple[str, ...]]] = {
    "darwin": {"os": _LACKS_OS},
    "windows": {
        "os": (
            *_LACKS_OS,
            *("O_DIRECTORY", "RTLD_NOLOAD", "RTLD_NOW", "fchmod", "fork", "getegid", "geteuid", "getgid", "getuid"),
            *("killpg", "mkfifo", "setsid", "statvfs", "uname"),
        ),
        "signal": ("SIGALRM", "SIGKILL", "SIGUSR1", "SIGUSR2", "alarm", "pthread_kill", "setitimer"),
    },
}
"""Names that modules of the standard library do not have there."""

_NO_MODULES: dict[str, tuple[str, ...]] = {
    "darwin": (),
    "windows": ("fcntl", "grp", "posix", "pwd", "resource", "termios"),
}
_NO_SYMBOLS: dict[str, tuple[str, ...]] = {"darwin": ("malloc_trim", "prctl"), "windows": ()}
"""Functions that the C library does not have there."""

_NO_METHODS: dict[str, tuple[str, ...]] = {"darwin": ("cpu_affinity", "memory_maps"), "windows": ()}
"""Methods that a process of psutil does not have there."""


class _Seen(ModuleType):
    """A module as the package sees it."""

    def __init__(self, real: ModuleType, lacks: Collection[str] = (), own: Mapping[str, object] | None = None) -> None:
        super().__init__(real.__name__, real.__doc__)
        self._real, self._lacks = real, frozenset(lacks)
        vars(self).update(own or {})

    def __getattr__(self, name: str) -> Any:
        if name in self._lacks:
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        return getattr(self._real, name)


def _library_class(system: str) -> type[ctypes.CDLL]:
    class Library(ctypes.CDLL):
        """A native library, as it is opened there."""

        def __init__(self, name: str | None, *args: Any, **options: Any) -> None:
            if name is None and system == "windows":
                raise TypeError("argument of type 'NoneType' is not iterable")
            super().__init__(name, *args, **options)

        def __getattr__(self, name: str) -> Any:
            if name in _NO_SYMBOLS[system]:
                raise AttributeError(f"dlsym(RTLD_DEFAULT, {name}): symbol not found")
            return super().__getattr__(name)

    return Library


def _process_class(system: str) -> type[object]:
    import resource

    import psutil

    class Process(psutil.Process):
        """A process, as psutil describes it there."""

        def __getattribute__(self, name: str) -> Any:
            if name in _NO_METHODS[system]:
                raise AttributeError(name)
            return super().__getattribute__(name)

        def memory_info(self) -> Any:
            """Return the memory of the process, on Windows with its peak."""
            info = super().memory_info()
            peak_bytes = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return SimpleNamespace(rss=info.rss, peak_wset=peak_bytes) if system == "windows" else info

    return Process


def _is_asked_for(frame: FrameType | None) -> bool:
    """Whether a call comes from the package, and not from a library or a test that it has called."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_FOLDER):
            return True
        if _LIBRARIES in file:
            return False
        frame = frame.f_back
    return False


def _is_from_linux(path: object) -> bool:
    """Whether it is a file that the kernel of Linux writes."""
    return isinstance(path, (str, os.PathLike)) and str(os.fspath(path)).startswith(("/proc/", "/sys/"))


def _lose_kernel_files() -> None:
    """Let the package find no file of the kernel."""

    def without(real: Callable[..., Any]) -> Callable[..., Any]:
        def asked(path: Any = ".", *args: Any, **options: Any) -> Any:
            if _is_from_linux(path) and _is_asked_for(sys._getframe(1)):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
            return real(path, *args, **options)

        return asked

    io.open = builtins.open = without(io.open)
    os.scandir, os.listdir = without(os.scandir), without(os.listdir)


def _lose_modules(system: str) -> None:
    """Give the package modules without what they lack there, and refuse those that are not there at all."""
    seen = {name: _Seen(sys.modules[name], lacks) for name, lacks in _LACKS[system].items()}
    seen["ctypes"] = _Seen(ctypes, own={"CDLL": _library_class(system)})
    real_import = builtins.__import__

    def imported(
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - Python's own signature
        locals: Mapping[str, Any] | None = None,  # noqa: A002 - as above
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        asking = str((globals or {}).get("__package__") or (globals or {}).get("__name__") or "")
        if level == 0 and asking.partition(".")[0] == PACKAGE:
            if name in _NO_MODULES[system]:
                raise ModuleNotFoundError(f"No module named '{name}'", name=name)
            if name == "psutil" and name not in seen:
                real = real_import(name)
                seen[name] = _Seen(real, own={"Process": _process_class(system)})
            if name in seen:
                return seen[name]
        return real_import(name, globals, locals, fromlist, level)

    builtins.__import__ = imported


def _error_in_use(path: object) -> PermissionError:
    """Return what Windows says of a file that somebody has open."""
    error = PermissionError(errno.EACCES, "The process cannot access the file: it is used by another process", path)
    error.winerror = 32  # type: ignore[attr-defined] # known on Windows alone
    return error


_read, _list = io.open, os.listdir


def _open_files() -> set[str]:
    """Return the files that this process has open or has mapped into its memory."""
    with _read("/proc/self/maps", encoding="utf-8") as maps:
        found = {line.rstrip("\n").split(maxsplit=5)[5] for line in maps if "/" in line}
    for name in _list("/proc/self/fd"):
        with suppress(OSError):  # closed meanwhile
            found.add(str(Path("/proc/self/fd", name).readlink()))
    return found


def _open_as_windows() -> None:
    """Refuse to open folders, and to flush what was opened for reading."""
    import fcntl

    real_open, real_fsync = os.open, os.fsync

    def opened(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if not options and Path(path).is_dir() and _is_asked_for(sys._getframe(1)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
        return real_open(path, flags, *args, **options)

    def flushed(fd: Any) -> None:
        descriptor = fd if isinstance(fd, int) else fd.fileno()
        is_read = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        if is_read and _is_asked_for(sys._getframe(1)):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        real_fsync(fd)

    os.open, os.fsync = opened, flushed


_SCANNED: set[str] = set()


def _refuse_move(source: Any, target: Any) -> None:
    """Refuse to move what this process has open, and any name once, as while a scanner reads it."""
    held = _open_files()
    for path in map(os.path.realpath, (source, target)):
        if any(file == path or file.startswith(f"{path}{os.sep}") for file in held):
            raise _error_in_use(path)
    if (path := os.fspath(source)) not in _SCANNED:
        _SCANNED.add(path)
        raise _error_in_use(path)


def _move_as_windows() -> None:
    """Refuse to move and to remove what is open."""

    def moving(real: Callable[..., None]) -> Callable[..., None]:
        def move(source: Any, target: Any, **options: Any) -> None:
            if _is_asked_for(sys._getframe(1)):
                _refuse_move(source, target)
            real(source, target, **options)

        return move

    def removing(real: Callable[..., None]) -> Callable[..., None]:
        def remove(path: Any, **options: Any) -> None:
            if not options and _is_asked_for(sys._getframe(1)) and os.path.realpath(path) in _open_files():
                raise _error_in_use(path)
            real(path, **options)

        return remove

    os.replace, os.rename = moving(os.replace), moving(os.rename)
    os.unlink, os.remove = removing(os.unlink), removing(os.remove)
    # By names and not by descriptors of folders, which are not there; a temporary file keeps its name while it is open.
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # type: ignore[assignment]


def _write_as_windows() -> None:
    """Write texts, where nothing else is said, in a code page and with two characters at the end of a line."""
    real = io.open

    def opened(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if "b" not in mode and _is_asked_for(sys._getframe(1)):
            names = ("buffering", "encoding", "errors", "newline")
            given = dict(zip(names, args, strict=False)) | options
            if given.get("encoding") in (None, "locale"):
                given["encoding"] = "cp1252"
            if given.get("newline") is None and mode[0] != "r":
                given["newline"] = "\r\n"
            return real(file, mode, **given)
        return real(file, mode, *args, **options)

    io.open = builtins.open = opened


def _start_as_windows() -> None:
    """Hand no descriptors on to processes."""
    real = subprocess.Popen.__init__

    def init(self: Any, *args: Any, **options: Any) -> None:
        assert not options.get("pass_fds"), "pass_fds not supported on Windows."
        real(self, *args, **options)

    subprocess.Popen.__init__ = init  # type: ignore[method-assign]


def emulate(system: str) -> None:
    """Make this process look like one of `system` to the package."""
    _lose_kernel_files()
    if system == "windows":
        _open_as_windows()
        _move_as_windows()
        _write_as_windows()
        _start_as_windows()
    _lose_modules(system)


# Not where a test imports it for what is in it.
if __name__ == "sitecustomize" and (name := os.environ.get("EMULATED_SYSTEM")):
    emulate(name)
