"""A file that is there stays as it is, whoever wrote it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pytest_quant.errors import UsageError
from pytest_quant.init import new_files
from pytest_quant.init.new_files import MARKER, NewFile, content, write_new

NEW = NewFile("a/b.py", f"{MARKER}x = 2\n")


def test_new_files_are_written_with_their_folders(tmp_path: Path) -> None:
    """A second time there is nothing to write."""
    both = (NEW, NewFile("c.yml", "on: push\n"))
    assert write_new(tmp_path, both) == ("a/b.py", "c.yml")
    assert [content(tmp_path / file.path).decode() for file in both] == [file.text for file in both]
    assert write_new(tmp_path, both) == ()


@pytest.mark.parametrize("text", [b"mine", b"\xff", b"", f"{MARKER}x = 1\n".encode()])
def test_nothing_that_is_there_is_overwritten(tmp_path: Path, text: bytes) -> None:
    """Not even what was written here before, which its reader may have changed."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.py").write_bytes(text)
    assert write_new(tmp_path, [NEW]) == ()
    assert content(tmp_path / "a" / "b.py") == text


def test_links_and_folders_are_left(tmp_path: Path) -> None:
    """What a link that leads nowhere is to point to is somebody's."""
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    assert write_new(tmp_path, [NewFile("link", "x"), NewFile("folder", "x")]) == ()
    assert not (tmp_path / "nowhere").exists()
    assert content(tmp_path / "link") == content(tmp_path / "folder") == b""


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    """Not even a folder."""
    assert write_new(tmp_path, [NEW], dry=True) == ("a/b.py",)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    """It is moved away by its owner, and by nobody else."""
    (tmp_path / "a").write_text("mine")
    with pytest.raises(UsageError, match=r"a/b\.py cannot be written") as caught:
        write_new(tmp_path, [NEW])
    assert (caught.value.fix or "").endswith("run it again")
    assert (tmp_path / "a").read_text() == "mine"


def test_a_folder_that_is_read_only_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what the system says."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(new_files, "write_whole", refuse)
    with pytest.raises(UsageError, match=r"a/b\.py cannot be written") as caught:
        write_new(tmp_path, [NEW])
    assert caught.value.value == "Permission denied"
