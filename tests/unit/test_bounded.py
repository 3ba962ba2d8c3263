"""What others wrote is read within bounds: nothing is waited for, and no content takes the memory."""

from __future__ import annotations

import os
import socket
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant import bounded
from pytest_quant.bounded import inflate, open_file, parse_json, read_file


def test_an_ordinary_file_is_read(tmp_path: Path) -> None:
    """Also through a link, up to the limit itself."""
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_file(tmp_path / "file", 5) == read_file(tmp_path / "link", 5) == b"12345"
    with open_file(tmp_path / "file") as stream:
        assert stream.read() == b"12345"


def test_a_file_above_the_limit_is_refused(tmp_path: Path) -> None:
    """With the limit in the message; no more than that is read."""
    (tmp_path / "file").write_bytes(b"123456")
    with pytest.raises(OSError, match="more than 5 bytes"):
        read_file(tmp_path / "file", 5)


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """A named pipe without a writer would be waited for, and a device never ends."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="a named pipe, not a file"):
        open_file(tmp_path / "pipe")
    with pytest.raises(OSError, match="a device, not a file"):
        open_file(Path("/dev/zero"))
    with pytest.raises(IsADirectoryError):
        open_file(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "nothing")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(tmp_path / "socket"))
        with pytest.raises(OSError):  # noqa: PT011 - the kernel's words
            open_file(tmp_path / "socket")


@given(st.binary(max_size=1000))
def test_what_zlib_packed_is_unpacked(content: bytes) -> None:
    """As zlib itself does."""
    assert inflate(zlib.compress(content), 1000) == content


def test_a_bomb_is_refused_before_it_takes_memory() -> None:
    """1 MB inflates to 1 GB; memory holds the limit, not that."""
    import tracemalloc

    packing = zlib.compressobj(9)
    bomb = b"".join(packing.compress(bytes(10**6)) for _ in range(200)) + packing.flush()
    tracemalloc.start()
    with pytest.raises(ValueError, match="more than 1000000 bytes"):
        inflate(bomb, 10**6)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * 10**6


@pytest.mark.parametrize("packed", [b"", b"no zlib", zlib.compress(b"text" * 100)[:-3]], ids=["empty", "other", "cut"])
def test_what_is_not_whole_is_refused(packed: bytes) -> None:
    """A cut stream would else give a part as if it were all."""
    with pytest.raises(ValueError, match=r"."):
        inflate(packed, 1000)


def test_json_is_read() -> None:
    """Text or bytes, with a mark at the beginning or none."""
    assert parse_json('{"a": [1, "ü"]}') == parse_json('\ufeff{"a": [1, "ü"]}'.encode()) == {"a": [1, "ü"]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[" * 100_000, "nested without end"),
        (b'{"a":' * 100_000, "nested without end"),
        (b"\xff", "not UTF-8"),
        ("\ud800", "not UTF-8"),
        (b"9" * 5000, "digits"),
        (b"{", "Expecting"),
    ],
    ids=["lists", "objects", "bytes", "surrogate", "digits", "cut"],
)
def test_hostile_json_is_a_value_error(text: bytes | str, words: str) -> None:
    """And nothing else, so that one clause of the caller catches all."""
    with pytest.raises(ValueError, match=words):
        parse_json(text)


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_text_is_json_or_a_value_error(text: bytes | str) -> None:
    """Nothing else comes out."""
    with suppress(ValueError):
        parse_json(text)


def test_more_values_than_memory_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of empty objects takes 24 times the memory of its text."""
    monkeypatch.setattr(bounded, "MOST_JSON_VALUES", 100)
    assert parse_json(f"[{','.join(['{}'] * 49)}]") == [{}] * 49
    with pytest.raises(ValueError, match="101 values, more than 100"):
        parse_json(f"[{','.join(['{}'] * 50)},0]")
