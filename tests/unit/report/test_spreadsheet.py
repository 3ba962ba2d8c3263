"""JUnit and CSV hold the figures of a check under names that stay, and nothing that a spreadsheet would compute."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_quant.history.rows import identity_of, version_of
from pytest_quant.record import Record, Run, from_json, to_json
from pytest_quant.record.figures import figures, junit_properties
from pytest_quant.report.spreadsheet import cell, csv_lines
from pytest_quant.result import Status
from tests.unit.record.examples import ACCURACY, RUN, a_pass, a_record, unavailable
from tests.unit.record.strategies import records

kept_records = records.map(lambda record: from_json(to_json(record)))
"""As a history gives them back: NaN and infinity are null in JSON, so that what is read has neither."""


def _read(*given: tuple[Run, list[Record]]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(csv_lines(given)), newline="")))


def test_figures_are_those_of_the_record() -> None:
    """In full precision; each one that the JSON of a run promises has a name, and an interval two."""
    record = a_record(accuracy=replace(ACCURACY, simulated=True))
    assert record.coverage is not None
    named = figures(record)
    document: Any = to_json(record)
    for section in ("accuracy", "latency", "resources"):
        same = named.keys() & document[section].keys() - {"simulated", "reference_precision"}
        assert {name: named[name] for name in same} == {name: document[section][name] for name in same}
    assert {"drop", "agreement_pct", "sqnr_db", "speedup", "candidate_p99_ms", "size_mb", "energy_mj"} <= named.keys()
    assert (named["status"], named["simulated"], named["coverage_pct"]) == ("FAIL", "true", record.coverage.pct)
    assert (named["speedup_ci_low"], named["speedup_ci_high"]) == (1.9012, 1.9888)
    assert (named["cache_engine"], named["candidate_p99_ms"]) == ("built", None)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(kept_records)
def test_properties_have_plain_types(record: Record) -> None:
    """They travel with xdist and end up in XML; what was not measured is left out."""
    properties = junit_properties(record)
    assert all(name.startswith("quant.") and type(value) in (str, int, float) for name, value in properties)
    assert len(dict(properties)) == len(properties)


def test_a_check_that_never_came_to_be_has_no_figures() -> None:
    """Its status and what it is."""
    names = {name for name, _ in junit_properties(unavailable())}
    assert names == {f"quant.{name}" for name in ("status", "model", "backend", "precision", "scheme", "batch_size")}
    assert "quant.simulated" not in dict(junit_properties(a_pass()))


@settings(max_examples=30)
@given(st.lists(kept_records, max_size=3))
def test_every_figure_is_in_its_row(suite: list[Record]) -> None:
    """Equal to the last digit; all runs share one head, in the order in which they are given."""
    rows = _read((RUN, suite), (replace(RUN, id="later"), [a_record()]))
    assert [row["run_id"] for row in rows] == [RUN.id] * len(suite) + ["later"]
    for row, record in zip(rows, suite, strict=False):
        for name, figure in figures(record).items():
            shown = "" if figure is None else cell(figure) if isinstance(figure, str) else str(figure)
            assert row[name] == shown


def test_a_row_tells_its_run_machine_and_verdicts() -> None:
    """Beside the figures, what they are to be grouped by."""
    row, empty = _read((RUN, [a_record(), unavailable()]))
    assert (row["run_id"], row["run_branch"], row["run_dirty"]) == (RUN.id, "main", "False")
    assert (row["identity"], row["version"]) == (identity_of(RUN, a_record()), version_of(a_record()))
    assert (row["cpu"], row["status"], row["verdicts"]) == ("Some CPU", "FAIL", "max_drop FAIL; min_coverage PASS")
    assert (empty["status"], empty["verdicts"]) == ("UNAVAILABLE", "")


@pytest.mark.parametrize("text", ["=1+1", "+cmd|'/c calc'!A0", "-2+3", "@SUM(A1)", " =1", "\t=1", "\r=1", "\uff1d1+1"])
def test_a_formula_is_a_text(text: str) -> None:
    """A spreadsheet takes what follows an apostrophe as it is; so in every column with a text."""
    record = replace(a_record(), nodeid=text, model=text, message=text)
    (row,) = _read((replace(RUN, branch=text), [record]))
    assert {row[name][0] for name in ("nodeid", "model", "message", "run_branch")} == {"'"}
    assert cell(text).startswith("'")


def test_lines_of_a_text_are_one_row() -> None:
    """A message of several lines, a quote, a comma: what is read back is on one line."""
    record = replace(unavailable(), message='two\nlines, "quoted"', status=Status.ERROR)
    text = "".join(csv_lines([(RUN, [record])]))
    assert len(text.splitlines()) == 2
    assert next(csv.DictReader(io.StringIO(text)))["message"] == 'two\\nlines, "quoted"'
