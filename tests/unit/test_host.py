"""What is done where a system lacks something: each time by taking it away from this one."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from pytest_quant import host

HEAVY = ("ctypes", "filelock", "multiprocessing.connection", "numpy", "psutil")


def test_asking_for_a_system_loads_nothing() -> None:
    """A run without a mark imports it too."""
    code = f"import sys, pytest_quant.host; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_function_is_interrupted_without_signals_between_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler runs in the main thread."""
    monkeypatch.delattr(signal, "pthread_kill")
    came = threading.Event()
    before = signal.signal(host.INTERRUPT, lambda *_: came.set())
    try:
        other = threading.Thread(target=host.interrupt_main)
        other.start()
        assert came.wait(60)
        other.join()
    finally:
        signal.signal(host.INTERRUPT, before)


JOINS = """
import sys
from pytest_quant.host import join_pipe
pipe = join_pipe(sys.argv[1])
pipe.send_bytes(pipe.recv_bytes()[::-1])
"""


def _starting(code: str) -> Callable[[str, Sequence[int]], subprocess.Popen[str]]:
    def start(word: str, descriptors: Sequence[int]) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, word]
        return subprocess.Popen(command, text=True, encoding="utf-8", **host.inherited(descriptors))

    return start


@pytest.fixture(params=["inherited", "found by its address"])
def pipes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How a process gets its end of a pipe."""
    if request.param != "inherited":
        monkeypatch.delattr(os, "fork")


@pytest.mark.usefixtures("pipes")
def test_a_pipe_leads_to_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways; what it was found by is gone then."""
    pipe, process = host.start_piped(_starting(JOINS))
    with pipe, process:
        pipe.send_bytes(b"abc")
        assert pipe.recv_bytes() == b"cba"
    assert process.returncode == 0


@pytest.mark.usefixtures("pipes")
def test_the_pipe_of_a_process_that_ends_at_once_is_broken() -> None:
    """It is not waited for without end."""
    pipe, process = host.start_piped(_starting("import sys; sys.exit(3)"))
    with pipe, process:
        assert process.wait() == 3
        with pytest.raises((EOFError, OSError)):
            pipe.recv_bytes()


PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, text=True)
print(child.stdout.readline().strip(), flush=True)
child.wait()
"""
CHILD = """
import os, time
from pytest_quant import host
{without}
host.end_with_parent()
print(os.getpid(), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("without", ["", "host.c_library = lambda: None"], ids=["by the kernel", "by looking"])
def test_a_process_ends_with_the_one_that_started_it(without: str) -> None:
    """Which was killed, so that it could end nothing itself."""
    command = [sys.executable, "-c", PARENT, CHILD.format(without=without)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.wait()
        assert psutil.wait_procs([child], timeout=60)[1] == []


@pytest.mark.parametrize(
    ("word", "posix", "windows"),
    [
        ("a.py::test_x", "a.py::test_x", "a.py::test_x"),
        ("t.py::test_x[a&b c]", "'t.py::test_x[a&b c]'", '"t.py::test_x[a&b c]"'),
        (r"C:\dir\x.py", r"'C:\dir\x.py'", r"C:\dir\x.py"),
        ('a"b', "'a\"b'", r'"a\"b"'),
        ("", "''", '""'),
    ],
)
def test_commands_in_messages_are_for_the_shell_of_the_user(
    word: str, posix: str, windows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cmd takes single quotes for letters."""
    assert (host.quote(word), host.join_words(["x", word])) == (posix, f"x {posix}")
    with monkeypatch.context() as patch:
        patch.setattr(os, "sep", "\\")
        assert (host.quote(word), host.join_words(["x", word])) == (windows, f"x {windows}")


def test_a_command_of_the_user_keeps_what_separates_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backslash hides a blank in one shell, and is a part of paths in the other."""
    assert host.split_words(r"make\ env.sh '{worktree}' \"x\" # y") == ["make env.sh", "{worktree}", '"x"', "#", "y"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "sep", "\\")
        command = r'"C:\My Python\python.exe" C:\make.py {worktree}'
        assert host.split_words(command) == [r"C:\My Python\python.exe", r"C:\make.py", "{worktree}"]
    with pytest.raises(ValueError, match="quot"):
        host.split_words("a 'b")


def _state(mode: int, owner: int) -> os.stat_result:
    return os.stat_result((stat.S_IFDIR | mode, 0, 0, 1, owner, 0, 0, 0, 0, 0))


def test_owners_and_rights_count_where_files_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere every folder seems open to all, and is the user's by the folder that it lies in."""
    own, others = _state(0o777, os.geteuid()), _state(0o755, os.geteuid() + 1)
    assert (host.is_owned(own), host.is_owned(others)) == (True, False)
    assert (host.is_shared(own), host.is_shared(others)) == (True, False)
    monkeypatch.delattr(os, "geteuid")
    assert (host.is_owned(others), host.is_shared(own)) == (True, False)
    assert host.user()


def test_the_common_folder_is_one_for_all_logins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A window of macOS and ssh have other temporary folders; Windows has one for each session."""
    before = host.common_folder()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert host.common_folder() == before != tmp_path
    monkeypatch.delattr(os, "geteuid")
    assert host.common_folder() == tmp_path
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert host.common_folder() == tmp_path / "local"


@pytest.mark.parametrize("locks", ["of the folder", "beside it"])
def test_a_folder_is_held_once(locks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a folder cannot be locked a file beside it is, which goes with the hold."""
    if locks == "beside it":
        monkeypatch.setitem(sys.modules, "fcntl", None)
    folder = tmp_path / "held"
    folder.mkdir()
    with host.hold_folder(folder):
        with pytest.raises(BlockingIOError), host.hold_folder(folder):
            pass
        assert len(list(tmp_path.iterdir())) == (1 if locks == "of the folder" else 2)
    with host.hold_folder(folder):
        pass
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize(("code", "tries"), [(32, 3), (5, 3), (17, 1), (None, 1)])
def test_a_new_name_waits_for_a_scanner(
    code: int | None, tries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows refuses it while somebody reads the file; any other refusal is one."""
    real, calls = Path.replace, []

    def replace(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) < 3:
            error = PermissionError(errno.EACCES, "in use")
            error.winerror = code  # type: ignore[attr-defined] # of Windows alone
            raise error
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    source, target = tmp_path / "new", tmp_path / "old"
    source.write_text("new")
    target.write_text("old")
    if tries == 3:
        host.rename(source, target)
        assert (target.read_text(), source.exists()) == ("new", False)
    else:
        with pytest.raises(PermissionError):
            host.rename(source, target)
    assert len(calls) == tries


def test_files_are_flushed_by_who_may_write_where_folders_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a folder nothing is asked there."""
    (tmp_path / "file").write_text("x")
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.append(os.O_ACCMODE & _flags(handle)))
    host.flush(tmp_path / "file")
    host.flush(tmp_path)
    assert flushed == [os.O_RDONLY, os.O_RDONLY]
    monkeypatch.delattr(os, "O_DIRECTORY")
    host.flush(tmp_path / "file")
    host.flush(tmp_path)
    assert flushed[2:] == [os.O_RDWR]


def _flags(descriptor: int) -> int:
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_GETFL)


def test_contents_are_flushed_by_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of the file with them, where they cannot be left out."""
    called, own = [], vars(host)["os"]
    monkeypatch.setattr(own, "fdatasync", lambda _: called.append("contents"), raising=False)
    monkeypatch.setattr(own, "fsync", lambda _: called.append("all"))
    host.flush_data(0)
    monkeypatch.delattr(own, "fdatasync")
    host.flush_data(0)
    assert called == ["contents", "all"]
