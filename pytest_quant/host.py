"""What differs between Linux, macOS and Windows, all of it: nothing else in the package knows of systems.

Each function asks what is there, a function, a module or a file, and never for the name of the system. So a system that
nobody thought of loses what it lacks, and nothing more. What only one use needs is imported there.
"""

from __future__ import annotations

import os
import platform
import re
import secrets
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from subprocess import Popen

POWER_FOLDER = Path("/sys/class/powercap")
"""Where Linux has the energy counters of the CPU packages (RAPL)."""


def system_name() -> str:
    """Return ``Linux``, ``Darwin``, ``Windows``: for texts and records, never to decide by."""
    return platform.system()


def processors() -> Sequence[int]:
    """Return the numbers of the logical processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    import psutil

    affinity = getattr(psutil.Process(), "cpu_affinity", None)
    return range(os.cpu_count() or 1) if affinity is None else affinity()


def proc_cpuinfo() -> str:
    """Return the text of ``/proc/cpuinfo``; where there is none, the line ``flags`` that it would have."""
    with suppress(OSError):
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    import numpy as np  # noqa: F401 - it knows the features of the processor

    own = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
    flags = [name for name, is_there in vars(own)["__cpu_features__"].items() if is_there]
    return f"flags : {' '.join([*flags, *apple_flags(_sysctl('hw.optional.arm'))])}"


_OF_APPLE = {"I8MM": "i8mm", "DotProd": "asimddp"}
"""Features that decide how int8 runs: Apple's names, and those in ``/proc/cpuinfo``."""


def apple_flags(sysctl_text: str) -> list[str]:
    """Return what `sysctl` says of ``hw.optional.arm``, as flags of ``/proc/cpuinfo``."""
    return [_OF_APPLE[name] for name in re.findall(r"FEAT_(I8MM|DotProd): 1\b", sysctl_text)]


def _sysctl(name: str) -> str:
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(  # nosec B603 # noqa: S603 - a fixed program without a shell
            ("sysctl", name),  # noqa: S607 - the system's own
            capture_output=True, timeout=10.0, check=False,
        )  # fmt: skip
        return done.stdout.decode(errors="replace")
    return ""


def cpu_limit() -> str:
    """Return the text of this container's ``cpu.max``; empty without one."""
    return _read("/sys/fs/cgroup/cpu.max")


def _read(*parts: str) -> str:
    """Return the text of a file that the kernel writes; empty where there is none."""
    with suppress(OSError):
        return Path(*parts).read_text(encoding="utf-8")
    return ""


def times_throttled() -> int:
    """Return how often a CPU limit stopped this process's control group (of version 2); 0 without a limit."""
    group = _read("/proc/self/cgroup").partition("0::/")[2].partition("\n")[0]
    fields = dict(line.split(maxsplit=1) for line in _read("/sys/fs/cgroup", group, "cpu.stat").splitlines())
    return int(fields.get("nr_throttled", 0))


def memory_kills(root: Path = Path("/")) -> int:
    """Return how many processes in this cgroup the system has ended for want of memory; 0 if nobody counts.

    Version 2 counts in ``memory.events``, version 1 in ``memory.oom_control``. A container sees its own group as the
    top one. `root` : of the file system.
    """
    with suppress(OSError):
        groups = re.findall(r"^\d+:(?:memory)?:(.*)$", (root / "proc/self/cgroup").read_text("utf-8"), re.M)
        names = ("sys/fs/cgroup{}/memory.events", "sys/fs/cgroup/memory{}/memory.oom_control")
        files = [root / name.format(group) for name in names for group in (*groups, "")]
        texts = [file.read_text("utf-8") for file in files if file.is_file()]
        return int(next(iter(re.findall(r"^oom_kill (\d+)$", "\n".join(texts[:1]), re.M)), 0))
    return 0


def c_library() -> Any:
    """Return the C library of this process, whose functions are attributes; ``None`` where it has no such table."""
    import ctypes

    with suppress(TypeError):
        return ctypes.CDLL(None)
    return None


def loaded_library(name: str) -> Any:
    """Return a native library if this process has loaded it, without loading it; else ``None``."""
    import ctypes

    # Systems that cannot be asked that have no backend on a GPU.
    with suppress(AttributeError, OSError):
        return ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    return None


def give_back_freed_memory() -> None:
    """Let the C library give the system back what it keeps of freed memory, if it can."""
    library = c_library()
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def watch_peak() -> Callable[[], int | None]:
    """Return a function that tells the most bytes by which this process has grown since now.

    It tells ``None`` where that is not known: only Linux lets a process forget its earlier peak, in some sandboxes not
    even that, and a lower one behind it is not seen.
    """
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", "ascii")  # see proc(5)
    began = _sizes()

    def added() -> int | None:
        ended = _sizes()
        if began is None or ended is None:
            return None
        # The kernel counts pages per thread and adds them up late.
        is_seen = ended[1] > began[1] or began[1] <= began[0] + 8_000_000
        return max(0, ended[1] - began[0]) if is_seen else None

    return added


def _sizes() -> tuple[int, int] | None:
    """Return the memory of this process in bytes, now and at its peak; ``None`` where nothing tells the peak."""
    with suppress(KeyError):
        status = dict(re.findall(r"^(VmRSS|VmHWM):\s*(\d+)", _read("/proc/self/status"), re.M))
        return int(status["VmRSS"]) * 1024, int(status["VmHWM"]) * 1024
    import psutil

    now: Any = psutil.Process().memory_info()
    if hasattr(now, "peak_wset"):
        return now.rss, now.peak_wset
    with suppress(ImportError):
        import resource

        # In bytes or in units of 1024; no peak is below what is used now.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return now.rss, peak if peak >= now.rss else peak * 1024
    return None


def huge_page_bytes() -> int:
    """Return the size of the pages into which the kernel can move memory; 0 where it cannot."""
    return int(_read("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") or 0)


def moves_cursor() -> bool:
    """Whether every terminal of this system moves its cursor where a program writes so."""
    try:
        import termios  # noqa: F401 - it is what such terminals are set by
    except ImportError:
        return False
    return True


INTERRUPT = getattr(signal, "SIGUSR2", signal.SIGTERM)
"""The signal of `interrupt_main`. Not that of Ctrl-C, which programs in the background of a shell ignore."""


def interrupt_main() -> None:
    """Have the main thread run its handler of `INTERRUPT`.

    Where signals can be sent it ends a wait inside the system too; elsewhere the handler runs after it.
    """
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, INTERRUPT)
    else:
        import _thread

        _thread.interrupt_main(INTERRUPT)


def end_with_parent() -> None:
    """Let this process end when the one that started it does, however that ends."""
    library = c_library()
    if hasattr(library, "prctl"):
        library.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        return
    import psutil

    parent = psutil.Process(os.getppid())

    def watch() -> None:
        # A dead process has its number until somebody waits for it; another one may get it then.
        while os.getppid() == parent.pid and parent.is_running():
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, name="quant-parent", daemon=True).start()


def inherited(descriptors: Sequence[int]) -> dict[str, Any]:
    """Return the options by which `subprocess.Popen` lets a process have these descriptors, under their numbers."""
    return {"pass_fds": descriptors} if descriptors else {}


def start_piped(start: Callable[[str, Sequence[int]], Popen[str]]) -> tuple[Connection, Popen[str]]:
    """Start a process, and return this end of a pipe to it; the pipe of a process that ended at once is broken.

    Parameters
    ----------
    start : gets a word for the command line, with which the process calls `join_pipe`, and descriptors to inherit.
    """
    from multiprocessing import Pipe
    from multiprocessing.connection import Client

    ours, theirs = Pipe()
    with theirs:
        if hasattr(os, "fork"):  # which hands descriptors on
            return ours, start(str(theirs.fileno()), [theirs.fileno()])
    with tempfile.TemporaryDirectory(prefix="pytest-quant-", ignore_cleanup_errors=True) as folder:
        file = Path(folder, "address")
        process = start(str(file), [])
        while process.poll() is None and not file.exists():
            time.sleep(0.01)
        if file.exists():
            ours.close()
            address, key = file.read_text("utf-8").splitlines()
            ours = Client(address, authkey=bytes.fromhex(key))
        return ours, process


def join_pipe(word: str) -> Connection:
    """Return the end of this process of the pipe that `start_piped` made."""
    from multiprocessing.connection import Connection, Listener

    if word.isdigit():
        os.set_inheritable(int(word), False)
        return Connection(int(word))
    end_with_parent()
    key = secrets.token_bytes(32)
    with Listener(authkey=key) as listener:
        draft = Path(f"{word}.draft")
        draft.write_text(f"{listener.address}\n{key.hex()}", "utf-8")
        rename(draft, Path(word))
        return listener.accept()


_PLAIN = re.compile(r"[\w@%+=:,./\\~-]+")


def quote(word: str) -> str:
    """Return a word as the user's shell reads it, for a command in a message."""
    if os.sep == "/":
        return shlex.quote(word)
    # For cmd and PowerShell, which know no other quotes for a path.
    return word if _PLAIN.fullmatch(word) else '"{}"'.format(word.replace('"', r"\""))


def join_words(words: Sequence[str]) -> str:
    """Return a command as the user's shell reads it."""
    return " ".join(map(quote, words))


def split_words(command: str) -> list[str]:
    """Return the words of a command that the user wrote. Raises `ValueError` where a quote is not closed."""
    reader = shlex.shlex(command, posix=True, punctuation_chars=False)
    reader.whitespace_split, reader.commenters = True, ""
    # What separates folders hides nothing.
    reader.escape = reader.escape.replace(os.sep, "")
    return list(reader)


def user() -> str:
    """Return what tells this user from the others of the machine."""
    if hasattr(os, "geteuid"):
        # In a container users often have no name.
        return str(os.geteuid())
    import getpass

    return getpass.getuser()


def is_owned(state: os.stat_result) -> bool:
    """Whether a file or folder is this user's; without owners by numbers the folder that it lies in decides."""
    return not hasattr(os, "geteuid") or state.st_uid == os.geteuid()


def is_shared(state: os.stat_result) -> bool:
    """Whether the rights of a file or folder let others write to it; without such rights that is not known."""
    return hasattr(os, "geteuid") and bool(state.st_mode & 0o022)


def common_folder() -> Path:
    """Return a folder for what all processes of a user share, however he logged in.

    It is not the temporary folder of the environment: ssh, cron and a window of macOS have other ones.
    """
    usual = Path("/tmp")  # nosec B108 # noqa: S108 - what is put there is made for this user alone
    if hasattr(os, "geteuid") and os.access(usual, os.W_OK):
        return usual
    return Path(os.environ.get("LOCALAPPDATA") or tempfile.gettempdir())


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Hold a folder until the block or the process ends. Raises `OSError` if another process holds it."""
    try:
        import fcntl
    except ImportError:
        with _hold_beside(folder):
            yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


@contextmanager
def _hold_beside(folder: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(f"{folder}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise BlockingIOError(f"{folder} is held") from error
    try:
        yield
    finally:
        lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)


_IN_USE = (5, 32)
"""Errors of Windows for a file that a scanner or a reader has open at the moment."""


def rename(source: Path, target: Path) -> None:
    """Give a file or folder another name, in place of a file that has it; waits a second for others' readers."""
    for wait_s in (0.01, 0.03, 0.1, 0.3, 0.6):
        try:
            source.replace(target)
        except PermissionError as error:
            if getattr(error, "winerror", None) not in _IN_USE:
                raise
            time.sleep(wait_s)
        else:
            return
    source.replace(target)


def flush(path: Path) -> None:
    """Return when a file or folder would survive a loss of power. Raises `OSError`."""
    flags = os.O_RDONLY
    if not hasattr(os, "O_DIRECTORY"):  # there a folder cannot be opened, and only a writer may flush a file
        if path.is_dir():
            return
        flags = os.O_RDWR
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_data(descriptor: int) -> None:
    """Return when the content of an open file would survive a loss of power; its times need not. Raises `OSError`."""
    getattr(os, "fdatasync", os.fsync)(descriptor)
