"""The table has one line for each check, whatever the width, and shows what was stored."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from pytest_quant.errors import UsageError
from pytest_quant.record import Record, failed_record, from_json, to_json
from pytest_quant.report.columns import COLUMNS
from pytest_quant.report.summary import table
from pytest_quant.result import AccuracyResult, Resources, Status
from tests.unit.record.examples import ACCURACY, COVERAGE, LATENCY, NODEID, a_check, a_pass, a_record, unavailable
from tests.unit.record.strategies import records

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?")

_RUN = [a_record(), a_pass(), unavailable(), a_record(a_check(precision="fp32", scheme=None), latency=None)]

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
    """Read back from the text, digit for digit as far as they are printed."""
    record = a_record(latency=replace(LATENCY, candidate_p99_ms=0.312345))
    (line,) = _body(table([record], 200, [name]))
    printed = [float(text) for text in _NUMBER.findall(line)]
    hundredths = name in ("metric", "drop", "drop_ci", "cosine")
    assert printed == pytest.approx(_VALUES[name](record), rel=6e-4, abs=0.005 if hundredths else 0)


def test_every_column_is_read_back_or_has_no_number() -> None:
    """A column that is added is added here."""
    assert {column.name for column in COLUMNS} - set(_VALUES) == {
        "test", "model", "backend", "precision", "scheme", "cache", "status"
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(_VALUES))
def test_what_was_not_measured_is_a_dash(name: str) -> None:
    """Beside a row that has the figure; of the batch size is known what was asked for."""
    unmeasured = a_record(
        latency=None,
        accuracy=AccuracyResult(n=0),
        coverage=replace(COVERAGE, pct=None),
        resources=Resources(),
    )
    _, line = _body(table([a_record(), unmeasured], 200, [name]))
    assert line.split()[-1] == {"batch": "1", "n": "0"}.get(name, "-")


def test_the_test_comes_first_then_what_differs_then_figures_then_the_status() -> None:
    """Units are in the heads, and what is the same in all rows is no column."""
    records = _RUN[:2] + _RUN[3:]
    lines = table(records, 250).splitlines()
    assert re.split(r"\s{2,}", lines[0]) == [
        "test", "precision", "scheme", "top1 %", "drop pp", "interval pp", "agree %", "p50 ms", "speedup x",
        "interval x", "coverage %", "size MB", "status",
    ]  # fmt: skip
    assert [line.split()[-1] for line in lines[2:]] == [record.status.value for record in records]


@pytest.mark.parametrize(("name", "other"), [("model", "resnet"), ("batch", "32"), ("backend", "openvino")])
def test_what_differs_between_rows_is_shown(name: str, other: str) -> None:
    """Two rows would look like one check twice; where nothing differs there is no such column."""
    changed = {
        "model": a_record(a_check(model="resnet")),
        "batch": a_record(latency=replace(LATENCY, batch_size=32)),
        "backend": a_record(a_check(backend="openvino")),
    }[name]
    head, _, *lines = table([a_record(), changed], 250).splitlines()
    assert re.split(r"\s{2,}", head)[:2] == ["test", name]
    assert lines[1].split()[1] == other
    assert name not in re.split(r"\s{2,}", table([changed, changed], 250).splitlines()[0])


def test_a_test_has_the_shortest_name_that_no_other_has() -> None:
    """The file is named only where two files have a test of one name; parameters are never taken apart."""
    nodeids = ["t/a.py::test_x[p/q::r]", "t/a.py::test_y", "u/a.py::test_y", "t/b.py::K::test_z", "t/b.py::L::test_z"]
    text = table([replace(a_record(), nodeid=nodeid) for nodeid in nodeids], 200, ["test"])
    assert _body(text) == ["test_x[p/q::r]", "t/a.py::test_y", "u/a.py::test_y", "K::test_z", "L::test_z"]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_one_line_for_each_check_at_every_width(width: int) -> None:
    """No line is wider than the terminal, and the statuses stand at its right end."""
    text = table(_RUN, width, picks="--pick")
    rows = _body(text)[: len(_RUN)]
    assert max(map(len, text.splitlines())) <= width
    assert [line.split()[-1] for line in rows] == [record.status.value for record in _RUN]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_columns_without_room_are_left_out_and_named(width: int) -> None:
    """Each is either a head or named in the last line, together with the option that picks."""
    text = table(_RUN, width, picks="--pick")
    told = " ".join(" ".join(_body(text)[len(_RUN) :]).split())
    left_out = told.removeprefix("no room for ").removesuffix(" (--pick picks)").split(", ")
    assert told.endswith(" (--pick picks)")
    whole = re.split(r"\s{2,}", table(_RUN, 500).splitlines()[0])
    assert len(re.split(r"\s{2,}", text.splitlines()[0])) + len(left_out) == len(whole)
    assert "picks" not in table(_RUN, width)
    assert "no room" not in table(_RUN, 500, picks="--pick")


@pytest.mark.parametrize("width", range(30, 121, 5))
def test_the_names_of_columns_without_room_break_between_words(width: int) -> None:
    """The option that picks stands in one piece, to be copied."""
    lines = _body(table(_RUN, width, picks="--quant-columns"))[len(_RUN) :]
    assert lines[-1].endswith("(--quant-columns picks)")
    assert all(line.endswith(",") or following.strip().startswith("(") for line, following in pairwise(lines))
    assert max(map(len, lines)) <= width


def test_picked_columns_without_room_are_left_out_from_the_last_on() -> None:
    """The first one that was asked for has room always."""
    text = table([a_record()], 40, ["status", "test", "p50", "metric"])
    assert text.splitlines()[0].split() == ["status", "test"]
    assert text.splitlines()[-1] == "no room for p50, metric"


def test_a_status_that_was_asked_for_is_never_left_out() -> None:
    """Whatever stands before it; of the others the last ones give way, and what is shown keeps its order."""
    asked = ["test", "metric", "drop", "agreement", "sqnr", "coverage", "status"]
    text = table(_RUN, 60, asked)
    assert text.splitlines()[0].split()[-1] == "status"
    assert [line.split()[-1] for line in _body(text)[: len(_RUN)]] == [record.status.value for record in _RUN]
    assert text.splitlines()[-1] == "no room for drop, agreement, sqnr, coverage"


def test_a_long_id_keeps_both_ends() -> None:
    """Its parameters are at the end; with room it is whole."""
    long = replace(a_record(), nodeid=f"t.py::test_{'x' * 100}[ort-int8]")
    assert re.match(r"test_x+\.\.\.x+\[ort-int8\] ", _body(table([long], 80))[0])
    assert f"test_{'x' * 100}[ort-int8] " in table([long], 250)


def test_one_number_of_digits_in_each_column() -> None:
    """Decimal points stand below each other; a share that is not whole does not look it."""
    fast, slow = replace(LATENCY, speedup=1.8499), replace(LATENCY, speedup=0.16893)
    rows = [a_record(latency=fast), a_record(latency=slow, coverage=replace(COVERAGE, pct=99.9996))]
    assert _body(table(rows, 100, ["speedup"])) == ["    1.850", "    0.169"]
    assert _body(table(rows, 100, ["coverage"])) == ["   87.5000", "   99.9996"]


def test_figures_of_all_sizes_have_exponents() -> None:
    """So many decimals would be a column of zeros."""
    rows = [a_record(accuracy=replace(ACCURACY, max_abs_error=error)) for error in (3.25e-7, 3250.0)]
    assert _body(table(rows, 100, ["max_abs_error"])) == ["3.250e-07", "3.250e+03"]


def test_an_expected_failure_is_no_fail() -> None:
    """A pass stays a pass, and another test's failure a failure."""
    records = [a_record(), replace(a_record(), nodeid="t.py::test_other"), replace(a_pass(), nodeid="t.py::test_good")]
    lines = _body(table(records, 80, ["test", "status"], expected={records[0].nodeid, "t.py::test_good"}))
    assert [line.split()[-1] for line in lines] == ["XFAIL", "FAIL", "PASS"]


def test_a_check_that_never_came_to_be_says_why() -> None:
    """In place of its figures, cut where it is too long for one line."""
    broken = failed_record(
        a_check(), status=Status.ERROR, message="there is no file model.onnx\n  next: write one"
    ).record
    assert re.search(r"  there is no file model.onnx +ERROR$", _body(table([a_record(), broken], 160))[1])
    long = replace(broken, message="there is " + "no file " * 50)
    for width in (80, 160):
        assert re.search(r"  there is no file .*\.\.\. +ERROR$", _body(table([a_record(), long], width))[1])


def test_figures_that_no_row_has_are_no_columns() -> None:
    """A head over nothing but dashes says nothing; a column that was asked for stays."""
    unmeasured = a_record(latency=None)
    heads = re.split(r"\s{2,}", table([unmeasured, unmeasured], 250).splitlines()[0])
    assert heads == ["test", "top1 %", "drop pp", "interval pp", "agree %", "coverage %", "size MB", "status"]
    assert "p50 ms" in table([unmeasured, a_record()], 250).splitlines()[0]
    assert table([unmeasured], 250, ["test", "p50"]).splitlines()[0].split() == ["test", "p50"]


@pytest.mark.parametrize("width", [60, 80, 160])
def test_checks_that_never_came_to_be_are_told_without_figures(width: int) -> None:
    """The reason has the room of all the figures, whatever else differs between the rows."""
    broken = failed_record(
        a_check(), status=Status.ERROR, message="there is no file model.onnx\n  next: write one"
    ).record
    text = table([broken, broken], width)
    head, _, *lines = text.splitlines()
    assert head.split() == ["test", "reason", "status"]
    told = "there is no file model.onnx" if width > 60 else "there is no file mode..."
    assert [re.split(r"\s{2,}", line) for line in lines] == [["test_int8[ort-int8-static]", told, "ERROR"]] * 2
    assert max(map(len, text.splitlines())) <= width
    assert _body(table([broken], 40, picks="--pick")) == ["test_int8[ort-int8-static]  ERROR"]
    narrow = a_record(accuracy=AccuracyResult(n=1), latency=None, resources=Resources())
    lines = table([narrow, broken], width).splitlines()
    assert lines[0].split() == ["test", "coverage", "%", "reason", "status"]
    assert [re.split(r"\s{2,}", line)[1] for line in lines[2:]] == ["87.50", told]
    short = table([replace(broken, message="no"), replace(unavailable(), message="none")], 160).splitlines()
    assert re.split(r"\s{2,}", short[0]) == ["test", "backend", "reason", "status"]
    assert [re.split(r"\s{2,}", line)[2] for line in short[2:]] == ["no", "none"]


def test_columns_stand_below_each_other() -> None:
    """Wide characters count as the two cells they take."""
    wide = a_record(a_check(model="模型"))
    head, _, *lines = table([wide, a_pass()], 250).splitlines()
    start = head.index("status")
    assert [cell_len(line) - len(line.split()[-1]) for line in lines] == [start, start]


def test_columns_are_picked_by_name() -> None:
    """In the order asked for."""
    head, _, line = table([a_record()], 100, ["status", "sqnr"]).splitlines()
    assert head.split() == ["status", "SQNR", "dB"]
    assert line.split() == ["FAIL", "21.37"]


def test_an_unknown_column_is_an_error_that_names_the_nearest() -> None:
    """A typo must not cost a column silently."""
    with pytest.raises(UsageError, match="did you mean 'speedup'"):
        table([a_record()], 100, ["speedupp"])


def test_timing_that_is_not_to_be_trusted_is_marked() -> None:
    """The number alone would be believed."""
    doubtful = a_record(latency=replace(LATENCY, reasons=("the A/A null is off",)))
    assert _body(table([doubtful], 100, ["speedup"]))[0].endswith(" ?")
    assert not _body(table([a_record()], 100, ["speedup"]))[0].endswith(" ?")
    assert _body(table([doubtful, a_record()], 100, ["speedup", "status"]))[1] == "  1.948    FAIL"


def test_simulated_accuracy_and_identical_outputs_are_named() -> None:
    """A float simulation proves no speed, and an infinite SQNR is no number."""
    special = a_record(accuracy=replace(ACCURACY, simulated=True, identical=True, sqnr_db=None))
    assert _body(table([special], 100, ["metric"]))[0].endswith("simulated")
    unnamed = a_record(accuracy=replace(ACCURACY, simulated=True, metric=None))
    assert _body(table([unnamed], 100, ["metric"]))[0].endswith("simulated")
    assert _body(table([special], 100, ["sqnr"]))[0].strip() == "identical"


def test_without_a_metric_the_table_shows_the_sqnr() -> None:
    """A row of a model without labels says how far its outputs lie from the reference's, or that they do not."""
    unlabelled = replace(ACCURACY, metric=None, unit=None, reference=None, candidate=None, drop=None, drop_ci=None)
    for accuracy, told in (
        (unlabelled, "21.37"),
        (replace(unlabelled, sqnr_db=None, identical=True), "identical"),
        (replace(unlabelled, simulated=True), "21.37 simulated"),
    ):
        head, _, line = table([a_record(accuracy=accuracy)], 100, ["metric"]).splitlines()
        assert head.strip() == "SQNR dB"
        assert line.strip() == told
    assert _body(table([a_record(accuracy=replace(unlabelled, sqnr_db=None))], 100, ["metric"]))[0].strip() == "-"


def test_several_metrics_are_named_in_the_cells() -> None:
    """Each with its unit and digits that suit it."""
    others = (
        replace(ACCURACY, metric="mse", unit="", reference=0.01234, candidate=0.01345),
        replace(ACCURACY, metric=None),
    )
    head, _, *lines = table([a_record(), *(a_record(accuracy=one) for one in others)], 100, ["metric"]).splitlines()
    assert head.strip() == "metric"
    assert [line.strip() for line in lines] == ["top1 97.78 -> 93.55 %", "mse 0.01234 -> 0.01345", "SQNR 21.37 dB"]


def test_colours_are_around_statuses_only() -> None:
    """Without colours the text is the same."""
    colored = table(_RUN, 200, color=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == table(_RUN, 200)
    assert re.findall(r"\x1b\[[1-9][0-9;]*m(\w+)", colored) == [record.status.value for record in _RUN]
    assert re.findall(r"\x1b\[[1-9][0-9;]*m(\w+)", table([a_record()], 200, color=True, expected={NODEID})) == ["XFAIL"]
    assert "\x1b" not in table(_RUN, 200)


def test_no_records_no_table() -> None:
    """Not even a header."""
    assert table([], 80) == ""


_OF_TESTS = st.lists(
    records.map(lambda record: from_json(to_json(record))), min_size=1, max_size=3, unique_by=lambda one: one.nodeid
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(_OF_TESTS, st.integers(1, 250))
def test_any_record_prints(kept: list[Record], width: int) -> None:
    """Whatever names and figures hold, no control character and no line break gets through."""
    every = [column.name for column in COLUMNS]
    for text in (table(kept, width), table(kept, width, every)):
        assert all(line.isprintable() for line in text.split("\n"))
    assert len(table(kept, 10**6).split("\n")) == 2 + len(kept)


def test_a_model_cannot_pass_for_a_status() -> None:
    """A name with escapes shows them."""
    hostile = a_record(a_check(model="x\x1b[32m\rPASS"), status=Status.FAIL)
    assert "\\x1b[32m\\rPASS" in table([hostile], 250, ["model", "status"])
