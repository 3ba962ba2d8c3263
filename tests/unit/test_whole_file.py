"""A file is replaced whole or not at all, and nothing is left beside it."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from pytest_quant.whole_file import whole_file, write_whole


def test_what_is_written_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    """A new file and an old one alike, to the byte."""
    file = tmp_path / "figures.json"
    for content in (b"first\r\n", b"", b"\xff\x00 third"):
        write_whole(file, content)
        assert file.read_bytes() == content
    assert list(tmp_path.iterdir()) == [file]


def test_until_the_end_a_reader_sees_the_old_file(tmp_path: Path) -> None:
    """The new bytes have another name until all of them are there."""
    file = tmp_path / "figures.json"
    file.write_bytes(b"old")
    with whole_file(file) as stream:
        stream.write(b"new")
        stream.flush()
        assert file.read_bytes() == b"old"
    assert file.read_bytes() == b"new"


def _write_half(file: Path, error: BaseException) -> None:
    with whole_file(file) as stream:
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


@pytest.mark.skipif(sys.platform == "win32", reason="rights of files are POSIX")
def test_others_may_read_it_as_far_as_the_user_lets_them(tmp_path: Path) -> None:
    """The rights are those of any new file, not those of a temporary one, which are the owner's alone."""
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "figures.json", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "figures.json").stat().st_mode & 0o777 == 0o640


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    """Callers say in their own words what could not be written."""
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "missing" / "figures.json", b"x")
