"""No file of anybody else is touched, and none of ours that somebody has worked on."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pytest_quant.errors import UsageError
from pytest_quant.init import drafts
from pytest_quant.init.drafts import Draft, is_ours, marked, put, state_of

OLD, NEW = marked("a/b.py", "x = 1\n"), marked("a/b.py", "x = 2\n")


def there(root: Path, text: str) -> Path:
    """Put a text at the place of the drafts."""
    file = root / "a" / "b.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, "utf-8")
    return file


@pytest.mark.parametrize(
    ("text", "state", "ours"),
    [
        (NEW.text, "same", True),
        (OLD.text, "ours", True),
        (OLD.text + "y = 3\n", "changed", True),
        (OLD.text.replace("1", "7", 1), "changed", True),
        ("x = 2\n", "theirs", False),
        ("", "theirs", False),
        ("\n" + OLD.text, "theirs", False),
        ("# written by pytest-quant init (somebody)\n", "theirs", False),
    ],
)
def test_what_is_there_is_known_by_its_first_line(tmp_path: Path, text: str, state: str, ours: bool) -> None:
    """A digest of the rest tells whether somebody has changed it."""
    file = there(tmp_path, text)
    assert state_of(tmp_path, NEW) == state
    assert is_ours(file) is ours


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("text", [OLD.text, OLD.text + "# mine\n", "mine\n", "\xff"])
def test_only_an_untouched_file_of_ours_is_overwritten_and_only_by_force(
    tmp_path: Path, text: str, force: bool
) -> None:
    """Whatever else is there stays as it is, byte by byte."""
    file = there(tmp_path, text)
    before = file.read_bytes()
    (done,) = put(tmp_path, [NEW], force=force)
    assert done.written is (force and text == OLD.text)
    assert file.read_bytes() == (NEW.text.encode() if done.written else before)


def test_new_files_are_written_with_their_folders(tmp_path: Path) -> None:
    """A second time there is nothing to write."""
    drafts = [NEW, marked("c.yml", "on: push\n")]
    assert [one.written for one in put(tmp_path, drafts, force=False)] == [True, True]
    assert [(tmp_path / one.path).read_text("utf-8") for one in drafts] == [one.text for one in drafts]
    assert [one.state for one in put(tmp_path, drafts, force=True)] == ["same", "same"]


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    """Not even a folder."""
    (done,) = put(tmp_path, [NEW], force=True, dry=True)
    assert (done.state, done.written) == ("new", False)
    assert list(tmp_path.iterdir()) == []


def test_a_link_that_leads_nowhere_is_left(tmp_path: Path) -> None:
    """What it is to point to is somebody's."""
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(UsageError, match="link cannot be read"):
        put(tmp_path, [Draft("link", "x")], force=True)


def test_a_folder_in_the_way_is_told_before_anything_is_written(tmp_path: Path) -> None:
    """All places are looked at first."""
    (tmp_path / "c.yml").mkdir()
    with pytest.raises(UsageError, match=r"c\.yml cannot be read"):
        put(tmp_path, [NEW, marked("c.yml", "")], force=True)
    assert not (tmp_path / "a").exists()


def test_a_file_in_the_place_of_a_folder_is_told_before_anything_is_written(tmp_path: Path) -> None:
    """It is moved away by its owner, and by nobody else."""
    (tmp_path / "c").write_text("")
    with pytest.raises(UsageError, match=r"c/d\.yml cannot be written") as caught:
        put(tmp_path, [NEW, marked("c/d.yml", "")], force=False)
    assert (caught.value.value, caught.value.fix) == (
        f"{tmp_path / 'c'} is a file",
        "move what is there away, and run it again",
    )
    assert not (tmp_path / "a").exists()


def test_a_folder_that_is_read_only_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to move away."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(drafts, "write_whole", refuse)
    with pytest.raises(UsageError, match=r"a/b\.py cannot be written") as caught:
        put(tmp_path, [NEW], force=False)
    assert caught.value.fix == "give your user the right to write there, and run it again"
