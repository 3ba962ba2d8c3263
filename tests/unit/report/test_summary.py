"""The table has one line for each check, whatever the width, and shows what was stored; see ``screens`` too."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from pytest_quant.errors import UsageError
from pytest_quant.record import Record, from_json, to_json
from pytest_quant.report.columns import COLUMNS, DEFAULT, pick_columns, rows_of
from pytest_quant.report.summary import summary, table
from pytest_quant.result import AccuracyResult, Interval, Resources, Status, TokenTime, Verdict
from tests.support.failed_checks import named, run_of_all_kinds
from tests.unit.record.examples import ACCURACY, COVERAGE, LATENCY, a_pass, a_record
from tests.unit.record.strategies import records

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?")
_RUN = run_of_all_kinds()

_VALUES = {
    "batch": lambda r: [r.batch_size],
    "metric": lambda r: [r.accuracy.reference, r.accuracy.candidate],
    "n": lambda r: [r.accuracy.n],
    "drop": lambda r: [r.accuracy.drop],
    "drop_ci": lambda r: [r.accuracy.drop_ci.low, r.accuracy.drop_ci.high],
    "agreement": lambda r: [r.accuracy.agreement_pct],
    "sqnr": lambda r: [r.accuracy.sqnr_db],
    "cosine": lambda r: [r.accuracy.cosine],
    "max_abs_error": lambda r: [r.accuracy.max_abs_error],
    "kl": lambda r: [r.accuracy.kl],
    "p50": lambda r: [r.latency.reference_p50_ms, r.latency.candidate_p50_ms],
    "p90": lambda r: [r.latency.candidate_p90_ms],
    "p99": lambda r: [r.latency.candidate_p99_ms],
    "ttft": lambda r: [r.latency.tokens[0].reference_ms, r.latency.tokens[0].candidate_ms],
    "tpot": lambda r: [r.latency.tokens[1].candidate_ms],
    "speedup": lambda r: [r.latency.speedup],
    "speedup_ci": lambda r: [r.latency.speedup_ci.low, r.latency.speedup_ci.high],
    "coverage": lambda r: [r.coverage.pct],
    "size": lambda r: [r.resources.size_mb],
    "memory": lambda r: [r.resources.run_memory_mb],
    "build": lambda r: [r.resources.build_s],
}


def _body(text: str) -> list[str]:
    """The lines below the rule."""
    lines = text.splitlines()
    return lines[next(i for i, line in enumerate(lines) if set(line) == {"-"}) + 1 :]


@pytest.mark.parametrize("name", sorted(_VALUES))
def test_every_printed_number_is_the_stored_one(name: str) -> None:
    """Read back from the text, digit for digit as far as they are printed; rows are sorted by the last of them."""
    tokens = TokenTime("ttft", 3.25, 2.125, None), TokenTime("tpot", None, 0.3125, None)
    record = a_record(latency=replace(LATENCY, candidate_p99_ms=0.312345, tokens=tokens))
    (line,) = _body(table([record], 200, [name]))
    printed = [float(text) for text in _NUMBER.findall(line)]
    hundredths = name in ("metric", "drop", "drop_ci", "cosine")
    assert printed == pytest.approx(_VALUES[name](record), rel=6e-4, abs=0.005 if hundredths else 0)
    (column,) = pick_columns([name])
    assert column.sort_value(rows_of([record])[0]) == _VALUES[name](record)[-1]


def test_every_column_is_read_back_or_has_no_number() -> None:
    """A column that is added is added here."""
    assert {column.name for column in COLUMNS} - set(_VALUES) == {
        "test", "model", "backend", "precision", "scheme", "isa", "portability", "cache", "status"
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(_VALUES))
def test_what_was_not_measured_is_a_dash(name: str) -> None:
    """Beside a row that has the figure; of the batch size is known what was asked for."""
    unmeasured = a_record(
        latency=None, accuracy=AccuracyResult(n=0), coverage=replace(COVERAGE, pct=None), resources=Resources()
    )
    _, line = _body(table([a_record(), unmeasured], 200, [name]))
    assert line.split()[-1] == {"batch": "1", "n": "0"}.get(name, "-")


def test_a_test_has_the_shortest_name_that_no_other_has() -> None:
    """The file is named only where two files have a test of one name; parameters are never taken apart."""
    nodeids = ["t/a.py::test_x[p/q::r]", "t/a.py::test_y", "u/a.py::test_y", "t/b.py::K::test_z", "t/b.py::L::test_z"]
    text = table([replace(a_record(), nodeid=nodeid) for nodeid in nodeids], 200, ["test"])
    assert _body(text) == ["test_x[p/q::r]", "t/a.py::test_y", "u/a.py::test_y", "K::test_z", "L::test_z"]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_one_line_for_each_check_at_every_width(width: int) -> None:
    """No line is wider than the terminal, statuses stand at its right end, and each column is a head or is named."""
    text = table(_RUN, width, picks="--pick")
    assert max(map(cell_len, text.splitlines())) <= width
    rows, below = _body(text)[: len(_RUN)], _body(text)[len(_RUN) :]
    assert [line.split()[-1] for line in rows] == [record.status.value for record in _RUN]
    left_out = " ".join(" ".join(below).split()).removeprefix("no room for ").removesuffix(" (--pick picks)")
    whole = re.split(r"\s{2,}", table(_RUN, 500).splitlines()[0])
    named = left_out.split(", ") if below else []
    assert len(re.split(r"\s{2,}", text.splitlines()[0])) + len(named) == len(whole)
    assert "picks" not in table(_RUN, width)


def test_picked_columns_without_room_are_left_out_from_the_last_on() -> None:
    """The first one that was asked for has room always, and so has a status; what is shown keeps its order."""
    text = table([a_record()], 40, ["status", "test", "p50", "metric"])
    assert text.splitlines()[0].split() == ["status", "test"]
    assert text.splitlines()[-1] == "no room for p50, metric"
    text = table(_RUN, 60, ["test", "drop", "agreement", "sqnr", "coverage", "status"])
    assert text.splitlines()[0].split()[-1] == "status"


def test_a_long_id_keeps_both_ends() -> None:
    """Its parameters are at the end; with room it is whole."""
    long = replace(a_record(), nodeid=f"t.py::test_{'x' * 100}[ort-int8]")
    assert re.match(r"test_x+\.\.\.x+\[ort-int8\] ", _body(table([long], 80))[0])
    assert f"test_{'x' * 100}[ort-int8] " in table([long], 250)


def test_long_ids_that_differ_in_the_middle_are_told_apart() -> None:
    """Cut in their middle they would be one name; each keeps its end then, and the others both ends."""
    ids = [f"t.py::test_example_int8[{name}-int8-static]" for name in ("openvino", "ort-openvino")]
    records = [replace(a_record(), nodeid=nodeid) for nodeid in (*ids, f"t.py::test_fp32_of_{'x' * 40}")]
    names = [line.split("  ")[0] for line in _body(table(records, 60))]
    assert names[0].endswith("[openvino-int8-static]")
    assert names[1].endswith("[ort-openvino-int8-static]")
    assert names[2].startswith("test_fp32")


def test_one_number_of_digits_in_each_column() -> None:
    """Decimal points stand below each other; a share that is not whole does not look it; all sizes have exponents."""
    rows = [
        a_record(latency=replace(LATENCY, speedup=1.8499), accuracy=replace(ACCURACY, max_abs_error=3.25e-7)),
        a_record(
            latency=replace(LATENCY, speedup=0.16893),
            accuracy=replace(ACCURACY, max_abs_error=3250.0),
            coverage=replace(COVERAGE, pct=99.9996),
        ),
    ]
    assert _body(table(rows, 100, ["speedup"])) == ["    1.850", "    0.169"]
    assert _body(table(rows, 100, ["coverage"])) == ["   87.5000", "   99.9996"]
    assert _body(table(rows, 100, ["max_abs_error"])) == ["3.250e-07", "3.250e+03"]


def test_an_unknown_column_is_an_error_that_names_the_nearest() -> None:
    """A typo must not cost a column silently."""
    with pytest.raises(UsageError, match="did you mean 'speedup'"):
        table([a_record()], 100, ["speedupp"])


def test_what_tests_have_in_common_is_said_once_with_their_names() -> None:
    """Six tests that leave the same open are one line, which names four of them; two limits of a test are in it."""
    both = [Verdict(limit, 1.0, None, Status.INCONCLUSIVE, "too noisy") for limit in ("min_speedup", "max_slowdown")]
    records = named(*[a_record(verdicts=tuple(both), status=Status.INCONCLUSIVE)] * 6, a_pass())
    (line,) = [line for line in summary(records).splitlines() if line.startswith("INCONCLUSIVE")]
    names = ", ".join(f"test_it[{number}]" for number in range(4))
    assert line == f"INCONCLUSIVE: {names} and 2 more: min_speedup, max_slowdown: too noisy"


def test_what_a_pass_must_not_hide_is_said() -> None:
    """Once for tests that have it in common; where a limit is broken the failure has it."""
    mixing = replace(a_pass(), warnings=("rows\x1b mix",))
    said = [line for line in summary(named(mixing, mixing)).splitlines() if line.startswith("warning: ")]
    assert said == ["warning: test_it[0], test_it[1]: rows\\x1b mix"]
    assert "warning" not in summary(named(replace(mixing, status=Status.FAIL), a_pass()))


@pytest.mark.parametrize(("high", "shown"), [(-0.01, True), (0.14, False)])
def test_better_than_fp32_is_said_where_the_interval_shows_it(high: float, shown: bool) -> None:
    """A sample more than FP32 may be chance."""
    better = replace(ACCURACY, candidate=97.9, drop=-0.12, drop_ci=Interval(-0.25, high))
    lines = summary(named(a_record(accuracy=better))).splitlines()
    assert ("better than FP32: test_it[0]: top1 97.78 -> 97.90 %" in lines) is shown


def test_a_check_that_passed_in_a_test_that_failed_is_no_pass() -> None:
    """It has a word of its own, in its row and in the counts; a broken limit stays a FAIL."""
    records = named(a_pass(), a_record())
    broken = {record.nodeid for record in records}
    assert [line.split("  ")[-1] for line in _body(table(records, 200, broken=broken))] == ["TEST FAILED", "FAIL"]
    assert summary(records, broken=broken).startswith("2 checks: 1 FAIL, 1 TEST FAILED\n")


_OF_TESTS = st.lists(
    records.map(lambda record: from_json(to_json(record))), min_size=1, max_size=3, unique_by=lambda each: each.nodeid
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(_OF_TESTS, st.integers(1, 250))
def test_any_record_prints(drawn: list[Record], width: int) -> None:
    """Whatever names and figures hold, no control character and no line break gets through."""
    every = [column.name for column in COLUMNS]
    for text in (table(drawn, width), table(drawn, width, every), summary(drawn)):
        assert all(line.isprintable() for line in text.split("\n"))
    assert len(table(drawn, 10**6).split("\n")) == 2 + len(drawn)


def test_the_columns_that_a_refusal_proposes_can_be_picked() -> None:
    """They are the default ones."""
    with pytest.raises(UsageError, match="no column 'speed'") as caught:
        pick_columns(["speed"])
    names = str(caught.value.fix).removeprefix("write --quant-columns=").split(",")
    assert tuple(column.name for column in pick_columns(names)) == DEFAULT
