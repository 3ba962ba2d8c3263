"""The file of accepted baselines keeps every value, reads well in a diff, and names the entry of a fault."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from freezegun import freeze_time
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_quant.errors import HistoryError
from pytest_quant.history.baselines.file import (
    NAME,
    AcceptedLatency,
    BaselineEntry,
    baseline_text,
    parse_baselines,
    read_baselines,
    write_baselines,
)
from pytest_quant.result import LaunchFigures
from pytest_quant.spec import SeriesKey
from tests.unit.record.examples import a_record

ENTRY = BaselineEntry(
    **SeriesKey("tests/test_digits.py::test_int8", "digits", "ort", "int8", "static", 1, "top1")._asdict(),
    commit="c0ffee" * 6 + "c0ff",
    run="20260102T030405Z-0123456789ab",
    reason='retrained on "large"',
    accepted_at=datetime(2026, 1, 3, 4, 5, 6, tzinfo=UTC),
    unit="%",
    candidate_score=93.55,
    drop=4.23,
    data="def456",
    latency=(AcceptedLatency({"cpu": "Some CPU", "isa": "avx2"}, 1.9475, 0.2345),),
)

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
_NUMBER = st.none() | st.floats(allow_nan=False, allow_infinity=False)
_WAYS = st.lists(_TEXT, max_size=2).map(tuple)
_LAUNCHES = st.lists(st.builds(LaunchFigures, _TEXT, _NUMBER, _NUMBER, _NUMBER, _NUMBER), max_size=3).map(tuple)
_LATENCY = st.builds(AcceptedLatency, st.dictionaries(_TEXT, _TEXT, max_size=3), _NUMBER, _NUMBER, _WAYS, _LAUNCHES)
_ENTRY = st.builds(
    BaselineEntry,
    **dict.fromkeys(("test", "model", "backend", "precision", "commit", "reason"), _TEXT),
    **dict.fromkeys(("scheme", "metric", "run", "unit", "data"), st.none() | _TEXT),
    **dict.fromkeys(("candidate_score", "drop", "size_mb", "coverage_pct"), _NUMBER),
    batch_size=st.integers(1, 1024),
    accepted_at=st.datetimes(timezones=st.just(UTC)),
    removed=st.booleans(),
    latency=st.lists(_LATENCY, max_size=1).map(tuple),
)


@settings(max_examples=60)
@given(st.lists(_ENTRY, max_size=3, unique_by=lambda entry: entry.series.text))
def test_every_value_comes_back(entries: list[BaselineEntry]) -> None:
    """Whatever characters names have and whatever numbers values are."""
    assert parse_baselines(baseline_text(entries)) == {entry.series.text: entry for entry in entries}


def test_a_file_is_read_while_a_test_holds_the_clock() -> None:
    """Such tools put their own class in the place of `datetime`, in the library that reads the file too."""
    with freeze_time("2020-01-02"):
        (entry,) = parse_baselines(baseline_text([ENTRY])).values()
    assert entry == ENTRY


def test_a_record_finds_its_entry() -> None:
    """By the key of its series."""
    assert ENTRY.series == SeriesKey.parse(a_record().series)


def test_the_file_reads_well_in_a_diff(tmp_path: Path) -> None:
    """One value or one machine in a line, units beside, in an order that does not depend on that of accepting."""
    other = replace(ENTRY, backend="openvino")
    write_baselines(tmp_path / NAME, [ENTRY, other])
    text = (tmp_path / NAME).read_text()
    write_baselines(tmp_path / NAME, [other, ENTRY])
    assert (tmp_path / NAME).read_text() == text
    for line in (
        'test = "tests/test_digits.py::test_int8"',
        'reason = "retrained on \\"large\\""',
        "accepted_at = 2026-01-03 04:05:06+00:00",
        "candidate_score = 93.55",
        "drop = 4.23",
        'unit = "%"',
        '    { identity = { cpu = "Some CPU", isa = "avx2" }, speedup = 1.9475, candidate_p50_ms = 0.2345 },',
    ):
        assert text.splitlines().count(line) == 2
    assert tomllib.loads(text)["schema"] == 1
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_no_file_is_no_baseline(tmp_path: Path) -> None:
    """And no error; an empty one neither."""
    assert read_baselines(tmp_path / NAME) == {}
    (tmp_path / NAME).write_text("")
    assert read_baselines(tmp_path / NAME) == {}


def _line(text: str, beginning: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if line.startswith(beginning))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("drop = 4.23", "dorp = 4.23", r"unknown field `dorp` - at `\$.baseline\[1\]`"),
        ("accepted_at = 2026-01-03 04", "accepted_at = 20260103 # 04", r"`\$.baseline\[1\].accepted_at`"),
        ("speedup = 1.9475", "speedup = true", r"got `bool` - at `\$.baseline\[1\].latency\[0\].speedup`"),
        ('commit = "c0ffee', 'comet = "c0ffee', r"`\$.baseline\[1\]`"),
    ],
)
def test_a_wrong_value_names_its_entry_and_field(old: str, new: str, message: str) -> None:
    """In the second of two entries, with the test that it is of."""
    first = replace(ENTRY, backend="another")
    before, mark, after = baseline_text([first, ENTRY]).rpartition(old)
    assert mark
    with pytest.raises(HistoryError, match=f"(?s)entry 2 of {ENTRY.series.test}.*{message}"):
        parse_baselines(before + new + after)


@pytest.mark.parametrize("number", ["nan", "-inf"])
def test_a_number_that_is_none_is_refused(number: str) -> None:
    """Compared with it any figure would pass."""
    with pytest.raises(HistoryError, match=f"(?s)is not valid.*{number} is no figure"):
        parse_baselines(baseline_text([ENTRY]).replace("1.9475", number))


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_conflict_of_a_merge_is_refused_with_its_line(ending: str) -> None:
    """And so is what is left of it where only its first line was removed."""
    lines = baseline_text([ENTRY]).splitlines()
    place = _line("\n".join(lines), "drop")
    lines[place - 1 : place] = ["<<<<<<< HEAD", "drop = 4.23", "=======", "drop = 5.0", ">>>>>>> topic"]
    with pytest.raises(HistoryError, match=f"(?s)is not valid.*line {place}"):
        parse_baselines(ending.join(lines))
    with pytest.raises(HistoryError, match=f"(?s)is not valid.*line {place + 1}"):
        parse_baselines(ending.join(line for line in lines if "<" not in line))


def test_a_series_that_is_there_twice_is_refused() -> None:
    """A merge without a conflict may leave it, and which one counts is for people to say."""
    text = baseline_text([ENTRY]) + "\n" + baseline_text([replace(ENTRY, drop=1.0)]).split("schema = 1\n")[1]
    with pytest.raises(HistoryError, match=f"(?s)a series is there twice.*{ENTRY.series.test}"):
        parse_baselines(text)


def test_other_documents_are_refused() -> None:
    """Each by name."""
    with pytest.raises(HistoryError, match="newer pytest-quant"):
        parse_baselines("schema = 2\n")
    for text, message in (
        ("schema = 1\n[tool]\nx = 1\n", "unknown field `tool`"),
        ("baseline = []\n", "missing required field `schema`"),
        ('schema = "1"\n', r"got `str` - at `\$.schema`"),
        ("schema = 1\nbaseline = 3\n", r"`\$.baseline`"),
        ("schema = 1\nbaseline = [3]\n", r"`\$.baseline\[0\]`"),
    ):
        with pytest.raises(HistoryError, match=f"(?s)is not valid.*{message}"):
            parse_baselines(text)


def test_a_file_that_cannot_be_read_or_written_is_an_error(tmp_path: Path) -> None:
    """A folder stands in its place."""
    (tmp_path / NAME).mkdir()
    with pytest.raises(HistoryError, match="cannot be read"):
        read_baselines(tmp_path / NAME)
    with pytest.raises(HistoryError, match="cannot be written"):
        write_baselines(tmp_path / NAME, [ENTRY])


def test_bytes_that_are_no_text_are_question_marks() -> None:
    """A reason on the command line may have them, and a TOML file may not: it can be read back."""
    (entry,) = parse_baselines(baseline_text([replace(ENTRY, reason="caf\udce9")])).values()
    assert entry.reason == "caf?"


HOSTILE = {
    "lists": "schema = 1\na = " + "[" * 100_000,
    "digits": "schema = 1\na = " + "9" * 5000,
    "baseline": "schema = 1\nbaseline = [1]",
    "time": baseline_text([ENTRY]).replace("2026-01-03 04", "2026-99-03 04"),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_toml_is_our_error(text: str, tmp_path: Path) -> None:
    """With the name of the file."""
    (tmp_path / NAME).write_text(text)
    with pytest.raises(HistoryError, match=NAME):
        read_baselines(tmp_path / NAME)


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    """With the first of them."""
    (tmp_path / NAME).write_bytes(b"schema = 1\n\n# \xff\n")
    with pytest.raises(HistoryError, match=f"(?s){NAME} cannot be read.*0xff in position 14"):
        read_baselines(tmp_path / NAME)
