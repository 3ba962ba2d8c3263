"""Locks of devices between real processes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pytest_quant.errors import QuantError, UsageError
from pytest_quant.measure import lock
from pytest_quant.measure.lock import FOLDER_VARIABLE, DeviceLocks
from tests.unit.measure.holders import hold, line, release, start

ALONE = DeviceLocks(pytest.fail)
"""Locks of a run that waits for nobody."""


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of this test only, and a short wait before anything is told."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(lock, "_WAIT_S", 0.2)


@pytest.mark.parametrize(
    ("mode", "holder"),
    [
        ("shared", "it builds or evaluates, or runs in another container"),
        ("exclusive", r"process {} \(.*-c .*\) since \d\d:\d\d:\d\d UTC"),
    ],
)
def test_timing_waits_for_everybody_and_says_so(mode: str, holder: str) -> None:
    """The exclusive lock comes when the other process is done, and the wait is told once, with who holds it alone."""
    other = hold(mode)
    texts: list[str] = []

    def on_wait(text: str) -> None:
        texts.append(text)
        release(other)

    with DeviceLocks(on_wait).exclusive("cpu"):
        assert other.returncode == 0
    assert len(texts) == 1
    assert re.search(f"waiting for cpu: another process uses it: {holder.format(other.pid)}", texts[0], re.DOTALL)


@pytest.mark.parametrize("mode", ["shared", "exclusive"])
def test_a_wait_has_an_end(mode: str) -> None:
    """The error names who holds the device and the option for more time; the device is free for others afterwards."""
    other = hold("exclusive")
    texts: list[str] = []
    held = getattr(DeviceLocks(texts.append, 0.5), mode)("cpu")
    with pytest.raises(QuantError, match=r"waiting for cpu: .*, and did so for 0\.5 s") as raised, held:
        pass
    assert f"process {other.pid}" in str(raised.value)
    assert "--quant-lock-timeout" in str(raised.value)
    assert len(texts) == 1
    release(other)
    with ALONE.exclusive("cpu"):
        pass


def test_a_secret_in_the_call_of_a_holder_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls name histories with their passwords, and the message ends up in a public log."""
    call = ["python", "postgresql://me:hunter22@db/history", "\x1b[31m\n::error::x", "long" * 99]
    monkeypatch.setattr("sys.orig_argv", call)
    with ALONE.exclusive("cpu"):
        note = (tmp_path / "cpu.holder").read_text()
    assert "db/history" in note
    assert "hunter22" not in note
    assert note.isprintable()
    assert len(note) < 250


def test_the_note_of_a_killed_process_is_not_believed(tmp_path: Path) -> None:
    """Whoever has the device after it is another one."""
    dead = hold("exclusive")
    dead.kill()
    dead.wait()
    assert (tmp_path / "cpu.holder").read_text().startswith(f"{dead.pid} ")
    builds = hold("shared")
    texts: list[str] = []

    def on_wait(text: str) -> None:
        texts.append(text)
        release(builds)

    with DeviceLocks(on_wait).exclusive("cpu"):
        pass
    assert str(dead.pid) not in texts[0]


@pytest.fixture
def own_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A common folder in which the usual folder of locks is not made yet."""
    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setattr(lock, "common_folder", lambda: tmp_path)
    return tmp_path / f"pytest-quant-locks-{os.getuid()}"


@pytest.mark.parametrize("how", ["by another user", "as a link"])
def test_a_folder_that_another_user_may_have_made_is_refused(own_temporary: Path, tmp_path: Path, how: str) -> None:
    """Who made it could hold every lock in it for ever, or a link leads wherever its maker wants."""
    if how == "as a link":
        (tmp_path / "elsewhere").mkdir()
        own_temporary.symlink_to(tmp_path / "elsewhere")
    else:
        own_temporary.mkdir()
        try:
            os.chown(own_temporary, os.getuid() + 1, -1)
        except PermissionError:
            pytest.skip("only the superuser gives folders away")
    with pytest.raises(UsageError, match=FOLDER_VARIABLE), ALONE.exclusive("cpu"):
        pass
    assert not list(own_temporary.iterdir())


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_others_are_kept_from_the_folder(own_temporary: Path, mode: int) -> None:
    """Where they could write to it, they no longer can."""
    own_temporary.mkdir()
    own_temporary.chmod(mode)
    with ALONE.exclusive("cpu"):
        assert own_temporary.stat().st_mode & 0o777 == 0o700


def test_what_times_nothing_does_not_wait_for_timing() -> None:
    """It goes on while another process times, and that process still holds the device alone against others."""
    other = hold("exclusive")
    with ALONE.shared("cpu", waits=False):
        assert other.poll() is None
    with ALONE.shared("cpu", waits=False):
        pass
    release(other)


def test_timing_waits_for_what_times_nothing() -> None:
    """A free device is held, so that a measurement that comes later is not disturbed."""
    with ALONE.shared("cpu", waits=False):
        waiting = start("exclusive")
        assert line(waiting).startswith("waiting for cpu: another process uses it")
    assert line(waiting) == "held"
    release(waiting)


def test_a_folder_that_cannot_hold_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says which folder, why, and which variable names another."""
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv(FOLDER_VARIABLE, str(file))
    with pytest.raises(UsageError, match=FOLDER_VARIABLE) as raised, ALONE.exclusive("cpu"):
        pass
    assert str(file) in str(raised.value)


def test_a_process_may_hold_a_device_twice() -> None:
    """Builds within builds and timing within timing go on; from shared to exclusive is an error, never a hang."""
    with (
        ALONE.shared("cpu"),
        ALONE.shared("cpu"),
        pytest.raises(RuntimeError, match="upgrade"),
        ALONE.exclusive("cpu"),
    ):
        pass
    with ALONE.exclusive("cpu"), ALONE.exclusive("cpu"):
        pass
