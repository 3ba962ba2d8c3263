"""The table shows every figure of every check, whatever the width."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from pytest_quant.errors import UsageError
from pytest_quant.record import Record, from_json, to_json
from pytest_quant.report import table
from pytest_quant.report.columns import COLUMNS, DEFAULT
from pytest_quant.result import Status
from tests.unit.record.examples import ACCURACY, LATENCY, a_check, a_pass, a_record, unavailable
from tests.unit.record.strategies import records

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?")

_RUN = [a_record(), a_pass(), unavailable(), a_record(a_check(precision="fp32", scheme=None), latency=None)]

_VALUES = {
    "batch": lambda r: [r.batch_size],
    "metric": lambda r: [r.accuracy.reference, r.accuracy.candidate],
    "n": lambda r: [r.accuracy.n],
    "drop": lambda r: [r.accuracy.drop, r.accuracy.drop_ci.low, r.accuracy.drop_ci.high],
    "agreement": lambda r: [r.accuracy.agreement_pct],
    "sqnr": lambda r: [r.accuracy.sqnr_db],
    "cosine": lambda r: [r.accuracy.cosine],
    "max_abs_error": lambda r: [r.accuracy.max_abs_error],
    "kl": lambda r: [r.accuracy.kl],
    "p50": lambda r: [r.latency.reference_p50_ms, r.latency.candidate_p50_ms],
    "p90": lambda r: [r.latency.candidate_p90_ms],
    "p99": lambda r: [r.latency.candidate_p99_ms],
    "speedup": lambda r: [r.latency.speedup, r.latency.speedup_ci.low, r.latency.speedup_ci.high],
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
    printed = [float(text) for text in _NUMBER.findall(line.replace("x", " ").replace("top1", ""))]
    assert printed == pytest.approx(_VALUES[name](record), rel=6e-4, abs=0.005 if name in ("metric", "drop") else 0)


def test_every_column_is_read_back_or_has_no_number() -> None:
    """A column that is added is added here."""
    assert {column.name for column in COLUMNS} - set(_VALUES) == {
        "test", "model", "backend", "precision", "scheme", "cache", "status"
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(_VALUES))
def test_what_was_not_measured_is_a_dash(name: str) -> None:
    """Of a check that never came to be nothing was, except the batch size that was asked for."""
    (line,) = _body(table([unavailable()], 200, [name]))
    assert line.strip() == ("1" if name == "batch" else "-")


def test_one_row_for_each_check_on_a_wide_terminal() -> None:
    """With the columns in their order, the status last."""
    lines = table(_RUN, 200).splitlines()
    assert len(lines) == 2 + len(_RUN)
    assert [line.split()[-1] for line in lines[2:]] == [record.status.value for record in _RUN]
    heads = [column.header for name in DEFAULT for column in COLUMNS if column.name == name]
    assert re.split(r"\s{2,}", lines[0]) == heads


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """And every figure is there at every width."""
    text = table(_RUN, width)
    assert max(map(len, text.splitlines())) <= width
    wide = sorted(_NUMBER.findall("\n".join(_body(table(_RUN, 500)))))
    assert sorted(_NUMBER.findall("\n".join(_body(text)))) == wide


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_folded_check_shows_its_status_on_its_first_line(width: int) -> None:
    """Whoever looks for FAIL finds the check it belongs to."""
    lines = _body(table(_RUN, width))
    firsts = [line for line in lines if not line.startswith(" ")]
    assert len(firsts) == len(_RUN)
    assert all(record.status.value in line and record.model in line for record, line in zip(_RUN, firsts, strict=True))


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
        (unlabelled, "SQNR 21.37 dB"),
        (replace(unlabelled, sqnr_db=None), "SQNR - dB"),
        (replace(unlabelled, sqnr_db=None, identical=True), "outputs identical"),
        (replace(unlabelled, simulated=True), "SQNR 21.37 dB simulated"),
    ):
        (line,) = _body(table([a_record(accuracy=accuracy)], 100, ["metric"]))
        assert line.strip() == told


@pytest.mark.parametrize("width", [60, 100, 250])
def test_batch_sizes_are_shown_where_they_differ(width: int) -> None:
    """Two rows that differ in nothing else would look like one check twice."""
    larger = a_record(latency=replace(LATENCY, batch_size=32))
    head, *_ = table([a_record(), larger], width).splitlines()
    assert re.split(r"\s{2,}", head)[4] == "batch"
    firsts = [line for line in _body(table([a_record(), larger], width)) if not line.startswith(" ")]
    assert [line.split()[4] for line in firsts] == ["1", "32"]
    assert "batch" not in re.split(r"\s+", table([larger, larger], width).splitlines()[0])


def test_colours_are_around_statuses_only() -> None:
    """Without colours the text is the same."""
    colored = table(_RUN, 200, color=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == table(_RUN, 200)
    assert re.findall(r"\x1b\[[1-9][0-9;]*m(\w+)", colored) == [record.status.value for record in _RUN]
    assert "\x1b" not in table(_RUN, 200)


def test_no_records_no_table() -> None:
    """Not even a header."""
    assert table([], 80) == ""


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(records.map(lambda record: from_json(to_json(record))), min_size=1, max_size=3), st.integers(1, 250))
def test_any_record_prints(kept: list[Record], width: int) -> None:
    """Whatever names and figures hold, no control character and no line break gets through."""
    every = [column.name for column in COLUMNS]
    for text in (table(kept, width), table(kept, width, every)):
        assert all(line.isprintable() for line in text.split("\n"))
    assert len(table(kept, 10**6).split("\n")) == 2 + len(kept)


def test_a_model_cannot_pass_for_a_status() -> None:
    """A name with escapes shows them."""
    hostile = a_record(a_check(model="x\x1b[32m\rPASS"), status=Status.FAIL)
    assert "\\x1b[32m\\rPASS" in table([hostile], 250)
