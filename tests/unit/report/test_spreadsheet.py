"""CSV holds every figure of every record, under names that stay, and nothing that a spreadsheet would compute."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_quant.history.rows import identity_of, version_of
from pytest_quant.record import Record, Run, from_json, to_json
from pytest_quant.report.spreadsheet import cell, csv_lines
from pytest_quant.result import Status
from tests.unit.record.examples import RUN, a_record, unavailable
from tests.unit.record.strategies import records, runs

kept_records = records.map(lambda record: from_json(to_json(record)))
"""As a history gives them back: NaN and infinity are null in JSON, so that what is read has neither."""


def numbers_of(document: Any, before: str = "") -> Iterator[tuple[str, float]]:
    """Yield each number of a record's JSON by its place, ``latency_speedup_ci_low``; lists of rows are left out."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from numbers_of(value, f"{before}{name}_")
    elif isinstance(document, list) and len(document) == 2 and before.endswith("_ci_"):
        yield from zip((f"{before}low", f"{before}high"), document, strict=True)
    elif isinstance(document, (int, float)):
        yield before.removesuffix("_"), document


ROWS_WITHIN = (
    *("accuracy_by_output_", "coverage_by_op_", "coverage_not_quantizable_"),
    *("latency_round_p50_ms_", "latency_repeat_"),
)
"""Places of numbers that are rows or mappings within a record; newline-delimited JSON has them."""

STAYS = """
run_id run_started_at run_commit run_branch run_dirty run_parents run_merge_base run_target run_pull_request run_tree
nodeid model backend precision scheme batch_size status series reference metric message
accuracy_n accuracy_metric accuracy_unit accuracy_better accuracy_reference accuracy_candidate accuracy_drop
accuracy_drop_ci_low accuracy_drop_ci_high accuracy_confidence accuracy_p_value accuracy_discordant
accuracy_n_to_resolve accuracy_agreement_pct accuracy_sqnr_db accuracy_cosine accuracy_max_abs_error
accuracy_max_abs_error_sample accuracy_worst_output accuracy_chance accuracy_kl accuracy_worst_class_label
accuracy_worst_class_n accuracy_worst_class_reference accuracy_worst_class_candidate accuracy_identical
accuracy_simulated accuracy_sample_weight
latency_batch_size latency_rounds latency_reference_p50_ms latency_candidate_p50_ms latency_candidate_p90_ms
latency_candidate_p99_ms latency_speedup latency_speedup_ci_low latency_speedup_ci_high latency_null_ratio_ci_low
latency_null_ratio_ci_high latency_half_width_pct latency_reasons latency_notes latency_reference_precision
latency_tf32 latency_clock latency_confidence latency_looks latency_session_sd latency_effective_rounds latency_widened
coverage_pct coverage_unit coverage_provider coverage_opaque_nodes coverage_float_nodes coverage_notes coverage_plan_of
coverage_scheme_pct
resources_size_mb resources_reference_size_mb resources_build_s resources_calibration_s resources_build_memory_mb
resources_run_memory_mb resources_energy_mj resources_device_memory_mb resources_device_memory_nvml_mb
resources_plan_of resources_energy_mj_ci_low resources_energy_mj_ci_high resources_device
confidence calibration calibration_samples threads isa latency_off notes
identity version cpu cache_engine cache_reference verdicts
"""
"""Columns that programs rely on; a later version has more, and all of these."""


def _read(*given: tuple[Run, list[Record]]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(csv_lines(given)), newline="")))


def test_no_column_is_renamed_or_twice() -> None:
    """Whoever reads a column by its name finds it in every later version."""
    (head,) = csv_lines([])
    columns = next(csv.reader([head]))
    assert [name for name in STAYS.split() if name not in columns] == []
    assert len(set(columns)) == len(columns)


@settings(max_examples=30)
@given(runs, st.lists(kept_records, max_size=3))
def test_every_number_of_a_record_is_in_its_row(run: Run, suite: list[Record]) -> None:
    """Equal to the last digit, found by its place in the record's JSON; a cell without a figure is empty."""
    rows = _read((run, suite))
    assert len(rows) == len(suite)
    for row, record in zip(rows, suite, strict=True):
        figures = {name: one for name, one in numbers_of(to_json(record)) if not name.startswith(ROWS_WITHIN)}
        for name, figure in figures.items():
            shown = row[name]
            assert shown == str(figure) if isinstance(figure, bool) else type(figure)(shown) == figure


def test_a_row_tells_its_run_machine_and_verdicts() -> None:
    """Beside the figures, what they are to be grouped by."""
    (row, empty) = _read((RUN, [a_record(), unavailable()]))
    assert (row["run_id"], row["run_branch"], row["run_dirty"]) == (RUN.id, "main", "False")
    assert (row["identity"], row["version"]) == (identity_of(RUN, a_record()), version_of(a_record()))
    assert (row["cpu"], row["status"], row["cache_engine"]) == ("Some CPU", "FAIL", "built")
    assert row["verdicts"] == "max_drop FAIL; min_coverage PASS"
    nothing = {empty[name] for name in ("accuracy_n", "latency_speedup", "verdicts", "cache_engine")}
    assert (empty["status"], nothing) == ("UNAVAILABLE", {""})


def test_all_runs_share_one_head() -> None:
    """In the order in which they are given."""
    later = replace(RUN, id="later")
    rows = _read((RUN, [a_record()]), (later, [a_record(), a_record()]))
    assert [row["run_id"] for row in rows] == [RUN.id, "later", "later"]


@pytest.mark.parametrize("text", ["=1+1", "+cmd|'/c calc'!A0", "-2+3", "@SUM(A1)", " =1", "\t=1", "\r=1", "\uff1d1+1"])
def test_a_formula_is_a_text(text: str) -> None:
    """A spreadsheet takes what follows an apostrophe as it is; so in every column with a text."""
    record = replace(a_record(), nodeid=text, model=text, message=text, notes=(text,))
    (row,) = _read((replace(RUN, branch=text), [record]))
    assert {row[name][0] for name in ("nodeid", "model", "message", "notes", "run_branch")} == {"'"}
    assert cell(text).startswith("'")


def test_lines_of_a_text_are_one_row() -> None:
    """A message of several lines, a quote, a comma: what is read back is on one line."""
    record = replace(unavailable(), message='two\nlines, "quoted"', status=Status.ERROR)
    text = "".join(csv_lines([(RUN, [record])]))
    assert len(text.splitlines()) == 2
    assert next(csv.DictReader(io.StringIO(text)))["message"] == 'two\\nlines, "quoted"'
