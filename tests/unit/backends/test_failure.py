"""What a library raised becomes a short message and a file with all of it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from pytest_quant.backends.runtime import KEPT_FILES, failed, failing_as, keep_text, told
from pytest_quant.errors import BuildError, ModelError, UsageError


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
    found = failed("exporting tiny to ONNX failed", _raised(300), fix="write module.float()")
    text = str(found)
    assert len(text.splitlines()) == 4
    assert text.startswith("exporting tiny to ONNX failed\n  got: TypeError: Got unsupported ScalarType BFloat16\n")
    assert "next: write module.float()" in text
    assert "Traceback" not in text
    assert found.log is not None
    assert found.log in text
    whole = Path(found.log).read_text(encoding="utf-8")
    assert whole.startswith("exporting tiny to ONNX failed\n")
    assert "Traceback (most recent call last)" in whole
    assert whole.count("\na line of the stack") == 300


def test_words_of_a_library_are_cut_where_they_grow_long() -> None:
    """Four lines of what a backend picked out, never a traceback, never more than 600 letters."""
    many = failed("x", ValueError(), value="\n".join("abcdefgh"))
    assert (many.value or "").splitlines() == list("abcd")
    trace = failed("x", ValueError(), value="first\nTraceback (most recent call last):\n  File ...")
    assert trace.value == "first"
    assert len(failed("x", ValueError(), value="y" * 5000).value or "") < 610


def test_an_error_without_words_is_told_by_its_type() -> None:
    """``KeyError()`` says nothing; its name does."""
    assert told(KeyError()) == "KeyError"
    assert told(ValueError("\n\n  second line first \n")) == "ValueError: second line first"


def test_our_own_errors_pass() -> None:
    """They are clear already; whatever else is raised is turned, and chained for a debugger."""
    with pytest.raises(UsageError, match="as it is"), failing_as("a step failed"):
        raise UsageError("as it is")
    with pytest.raises(BuildError, match="a step failed") as caught, failing_as("a step failed"):
        raise ZeroDivisionError("1/0")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.fix
    assert isinstance(failed("no module", ValueError(), kind=ModelError), ModelError)


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
    """A link in a shared folder could lead anywhere."""
    kept = keep_text("first")
    assert kept is not None
    folder, elsewhere = kept.parent, temporary / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    found = keep_text("second")
    assert found is not None
    assert found.parent.resolve() not in (folder.resolve(), elsewhere)


def test_where_nothing_can_be_written_the_message_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A full disk must not hide the failure."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    found = failed("a step failed", ValueError("why"))
    assert found.log is None
    assert str(found) == "a step failed\n  got: ValueError: why"
