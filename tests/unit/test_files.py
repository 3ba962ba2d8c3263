"""A file is replaced whole or not at all; what others wrote is read within bounds, and nothing is waited for."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
import threading
import tracemalloc
import zlib
from pathlib import Path

import pytest

from pytest_quant.files import (
    inflate,
    is_own,
    open_file,
    parse_json,
    read_file,
    replace_file,
    temporary_folder,
    write_whole,
)

_HOLDS_A_FOLDER = """
from pytest_quant.files import temporary_folder
with temporary_folder() as folder:
    print(folder, flush=True)
    input()
"""


def test_until_the_end_a_reader_sees_the_old_file(tmp_path: Path) -> None:
    """The new bytes have another name until all of them are there."""
    file = tmp_path / "figures.json"
    file.write_bytes(b"old")
    with replace_file(file) as stream:
        stream.write(b"new")
        stream.flush()
        assert file.read_bytes() == b"old"
    assert file.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [file]


def _write_half(file: Path, error: BaseException) -> None:
    with replace_file(file) as stream:
        stream.write(b"half")
        raise error


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no space"), ValueError("not ours"), KeyboardInterrupt()])
def test_an_error_in_the_middle_leaves_what_was_there(tmp_path: Path, error: BaseException) -> None:
    """Whatever it is: it passes on as it was raised, and the half that was written is gone."""
    file = tmp_path / "figures.json"
    file.write_bytes(b"old")
    with pytest.raises(type(error)) as caught:
        _write_half(file, error)
    assert caught.value is error
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_bytes_are_on_the_disk_before_they_have_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a loss of power could leave the name with nothing behind it."""
    file = tmp_path / "figures.json"
    flushed = []

    def fsync(descriptor: int) -> None:
        flushed.append((os.fstat(descriptor).st_size, file.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(file, b"12345")
    assert flushed == [(5, False)]


def test_a_device_stays_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes for /dev/null are gone, and no file has taken its place."""
    # Where the fact is false, the machine would lose the device.
    monkeypatch.setattr(Path, "replace", lambda *_: pytest.fail("the device would be replaced"))
    write_whole(Path(os.devnull), b"nobody reads this")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_a_pipe_gets_the_bytes_and_stays_a_pipe(tmp_path: Path) -> None:
    """The reader at its other end has them all."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_whole(pipe, b"figures")
    reader.join(60)
    assert read == [b"figures"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


IN_ORDER = """
import sys
from pathlib import Path
from pytest_quant.files import write_whole
sys.stdout.write("before\\n")
write_whole(Path(sys.argv[1]), b"figures\\n")
sys.stdout.write("after\\n")
"""


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_the_output_of_the_process_gets_them_between_what_it_says(tmp_path: Path, kind: str) -> None:
    """A file that a shell redirects to keeps what came before, and loses nothing that comes after."""
    command, said = [sys.executable, "-c", IN_ORDER, "/dev/stdout"], tmp_path / "said.txt"
    if kind == "file":
        with said.open("wb") as stream:
            subprocess.run(command, stdout=stream, check=True)
        printed = said.read_bytes()
    else:
        printed = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    assert printed == b"before\nfigures\nafter\n"


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_keeps_pointing_to_the_file(tmp_path: Path, exists: bool) -> None:
    """Links may follow each other, and the last may point to a file that is not there yet."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    file, middle, link = folder / "figures.json", folder / "middle", tmp_path / "link"
    middle.symlink_to("figures.json")
    link.symlink_to(middle)
    if exists:
        file.write_bytes(b"old")
    write_whole(link, b"new")
    assert link.is_symlink()
    assert middle.is_symlink()
    assert file.read_bytes() == b"new"
    assert sorted(folder.iterdir()) == [file, middle]


def test_a_file_keeps_its_rights(tmp_path: Path) -> None:
    """Who could not read the old figures cannot read the new ones; a new file has those that the user lets it have."""
    file = tmp_path / "figures.json"
    before = os.umask(0o027)
    try:
        write_whole(file, b"old")
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    for mode in (0o600, 0o664, 0o755):
        file.chmod(mode)
        write_whole(file, b"new")
        assert (stat.S_IMODE(file.stat().st_mode), file.read_bytes()) == (mode, b"new")


def test_a_read_only_file_is_kept(tmp_path: Path) -> None:
    """For the superuser too, whom the system would let write it."""
    file = tmp_path / "figures.json"
    file.write_bytes(b"old")
    file.chmod(0o444)
    with pytest.raises(PermissionError, match="read-only, mode 0444"):
        write_whole(file, b"new")
    assert (stat.S_IMODE(file.stat().st_mode), file.read_bytes()) == (0o444, b"old")
    assert list(tmp_path.iterdir()) == [file]


def test_an_ordinary_file_is_read(tmp_path: Path) -> None:
    """Also through a link, up to the limit itself and no further."""
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_file(tmp_path / "file", 5) == read_file(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_file(tmp_path / "file", 4)


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """A named pipe without a writer would be waited for, and a device never ends."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="a device or a pipe, not a file"):
        open_file(tmp_path / "pipe")
    with pytest.raises(OSError, match="a device or a pipe, not a file"):
        open_file(Path("/dev/zero"))
    with pytest.raises(IsADirectoryError):
        open_file(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "nothing")


def test_a_folder_is_own_where_nobody_else_can_put_files_into_it(tmp_path: Path) -> None:
    """Neither its group nor others; a link may be led elsewhere."""
    (tmp_path / "link").symlink_to(tmp_path)
    assert not is_own(tmp_path / "link")
    for mode, own in ((0o775, False), (0o757, False), (0o1777, False), (0o755, True), (0o700, True)):
        tmp_path.chmod(mode)
        assert is_own(tmp_path) is own


def test_the_folder_of_a_killed_process_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the next process that makes one; a folder in use stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("pytest_quant.files._NEW_S", -1.0)
    command = (sys.executable, "-c", _HOLDS_A_FOLDER)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        held = Path(process.stdout.readline().strip())
        with temporary_folder() as own:
            assert held.is_dir()
            assert own.parent == held.parent
        process.kill()
    with temporary_folder():
        assert not held.exists()
    assert list(tmp_path.glob("*/*")) == []


def test_a_bomb_is_refused_before_it_takes_memory() -> None:
    """1 MB inflates to 1 GB; memory holds the limit, not that."""
    packing = zlib.compressobj(9)
    bomb = b"".join(packing.compress(bytes(10**6)) for _ in range(200)) + packing.flush()
    tracemalloc.start()
    with pytest.raises(ValueError, match="more than 1000000 bytes"):
        inflate(bomb, 10**6)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * 10**6


def test_what_is_not_whole_is_refused() -> None:
    """A cut stream would else give a part as if it were all."""
    packed = zlib.compress(b"text" * 100)
    assert inflate(packed, 1000) == b"text" * 100
    for damaged in (b"", b"no zlib", packed[:-3]):
        with pytest.raises(ValueError, match=r"."):
            inflate(damaged, 1000)


def test_hostile_json_is_a_value_error() -> None:
    """And nothing else, so that one clause of the caller catches all; a mark at the beginning is none."""
    assert parse_json('{"a": [1, "ü"]}') == parse_json('\ufeff{"a": [1, "ü"]}'.encode()) == {"a": [1, "ü"]}
    nested, objects = b"[" * 100_000, b'{"a":' * 100_000
    hostile: list[tuple[bytes | str, str]] = [(nested, "nested without end"), (objects, "nested without end")]
    hostile += [(b"\xff", "not UTF-8"), ("\ud800", "not UTF-8"), (b"9" * 5000, "digits"), (b"{", "Expecting")]
    for text, words in hostile:
        with pytest.raises(ValueError, match=words):
            parse_json(text)
