"""``pytest-quant cache``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_quant.cache import Cache
from pytest_quant.cli import commands
from pytest_quant.cli.machine_commands import _age
from pytest_quant.errors import UsageError


def _fill(folder: Path) -> dict[str, int]:
    (folder / "weights").write_bytes(b"x" * 500_000)
    return {}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of a project with two entries."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / ".quant" / "cache"
    cache = Cache(root)
    cache.obtain("engine", "ort-int8-static of digits\x1b[2J", {"model": "1"}, _fill)
    cache.obtain("calibration", "ort-int8-static of digits", {"data": "1"}, _fill)
    return root


def _run(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(commands, arguments, input=answer)


def test_entries_are_shown_with_size_age_and_slot(root: Path) -> None:
    """Under a head, and their total; escapes in a name show."""
    head, *lines, total = _run("cache").stdout.splitlines()
    assert head.split() == ["kind", "size", "built", "used", "of"]
    assert {line.index("ort-int8") for line in lines} == {head.index("of")}
    assert sorted(line.split()[0] for line in lines) == ["calibration", "engine"]
    assert all("0.50" in line and " ago" in line for line in lines)
    assert "\\x1b[2J" in "".join(lines)
    assert total == f"2 entries, {sum(entry.size_bytes for entry in Cache(root).entries()) / 1e6:.1f} MB in {root}"


def test_clearing_asks_first(root: Path) -> None:
    """No is no, and so is no answer."""
    assert _run("cache", "clear", answer="n\n").exit_code == 1
    assert _run("cache", "clear", answer="").exit_code == 1
    assert len(Cache(root).entries()) == 2


def test_clearing_removes_everything(root: Path) -> None:
    """After a yes, or without asking."""
    done = _run("cache", "clear", answer="y\n")
    assert done.exit_code == 0
    assert "2 entries removed" in done.stdout
    assert Cache(root).entries() == ()
    assert "is empty" in _run("cache", "clear", "--yes").stdout


def test_an_unknown_kind_is_an_error(root: Path) -> None:
    """It names the nearest, and nothing is removed; of a known one the others stay."""
    error = _run("cache", "clear", "--kind", "engin", "--yes").exception
    assert isinstance(error, UsageError)
    assert "did you mean 'engine'" in str(error)
    assert len(Cache(root).entries()) == 2
    assert _run("cache", "clear", "--kind", "engine", "--yes").exit_code == 0
    assert [entry.kind for entry in Cache(root).entries()] == ["calibration"]


def test_an_empty_cache_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And looking at it creates nothing; a folder of its own keeps it from those above."""
    (tmp_path / ".quant").mkdir()
    monkeypatch.chdir(tmp_path)
    assert _run("cache").stdout == f"0 entries, 0.0 MB in {tmp_path / '.quant' / 'cache'}\n"
    assert _run("cache", "--cache", "elsewhere").stdout == "0 entries, 0.0 MB in elsewhere\n"
    assert list(tmp_path.rglob("*")) == [tmp_path / ".quant"]


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(0.0, "0 s"), (59.0, "59 s"), (61.0, "1 min"), (7300.0, "2 h"), (200_000.0, "2 d"), (-5.0, "0 s")],
)
def test_an_age_has_the_unit_that_fits(seconds: float, age: str) -> None:
    """A clock that was set back makes nothing negative."""
    assert _age(seconds) == age


def test_trimming_leaves_what_was_used_today(root: Path) -> None:
    """The message says why more is left than was asked for."""
    done = _run("cache", "trim", "--max-mb", "0")
    assert done.stdout == "0 entries removed, 0.0 MB freed, 1.0 MB left; 2 entries stay, used in the last 24 h\n"
    assert len(Cache(root).entries()) == 2


def test_trimming_removes_what_was_not_used_for_longest(root: Path) -> None:
    """Of two entries, each of half a megabyte and a manifest, one is left; the message has what went and what stays."""
    (older,) = root.glob("engine/*/last-use")
    os.utime(older, (1e9, 1e9))
    done = _run("cache", "trim", "--max-mb", "1")
    assert done.exit_code == 0, done.output
    assert [entry.kind for entry in Cache(root).entries()] == ["calibration"]
    assert done.stdout == "1 entries removed, 0.5 MB freed, 0.5 MB left\n"
