"""What a check opens to says what its record holds, and nothing where it holds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pytest_quant.record import Record
from pytest_quant.report.page.content import (
    Block,
    Command,
    Facts,
    Lines,
    RoundsChart,
    Section,
    Table,
    Verdicts,
)
from pytest_quant.report.page.sections import sections
from pytest_quant.result import Hint, LaunchFigures, Status
from tests.support.pages import rich_record
from tests.unit.record.examples import RUN, a_pass, a_record, unavailable


def _section(record: Record, title: str) -> Section:
    (found,) = (one for one in sections(record, RUN, 3) if one.title.startswith(title))
    return found


def _blocks(section: Section, kind: type[Block]) -> list[Any]:
    return [block for block in section.blocks if isinstance(block, kind)]


def _facts(section: Section) -> dict[str, str]:
    return dict(fact for block in _blocks(section, Facts) if not block.title for fact in block.facts)


def _lines(section: Section) -> list[str]:
    return [line for block in _blocks(section, Lines) for line in block.lines]


def _commands(section: Section) -> Iterator[str]:
    return (block.line for block in _blocks(section, Command))


def test_a_check_has_a_section_for_each_kind_of_figure() -> None:
    """In the order in which one looks at them."""
    titles = [section.title.partition(",")[0] for section in sections(a_record(), RUN, 0)]
    assert titles == ["Verdicts", "Accuracy", "Latency", "Coverage", "Size", "Where it comes from"]


def test_each_verdict_has_both_figures_with_its_unit_and_its_reason() -> None:
    """And a drawing where it compares figures."""
    (block,) = _blocks(_section(a_record(), "Verdicts"), Verdicts)
    first, second = block.verdicts
    assert (first.limit, first.status, first.unit) == ("max_drop", "FAIL", "pp")
    assert (first.observed, first.allowed) == ("4.23", "1.0")
    assert first.reason == "4.23 pp is above 1.0 pp"
    assert first.plot is not None
    assert (second.limit, second.unit) == ("min_coverage", "%")


def test_a_figure_stays_on_its_side_of_the_limit() -> None:
    """1.00001 is not shown as the limit that it broke."""
    record = a_record()
    assert record.verdicts is not None
    close = replace(record, verdicts=(replace(record.verdicts[0], observed=1.00001),))
    (block,) = _blocks(_section(close, "Verdicts"), Verdicts)
    assert block.verdicts[0].observed == "1.00001"


def test_what_was_measured_to_help_is_told_with_its_figures() -> None:
    """And what to write is ready to be copied."""
    hint = Hint("without two nodes it holds", "exclude=['a', 'b']", "max_drop", 4.23, 0.5)
    section = _section(replace(a_record(), hints=(hint,)), "Verdicts")
    assert list(_commands(section)) == ["exclude=['a', 'b']"]
    assert _facts(section) == {"max_drop with it": "4.23 -> 0.5"}


def test_latency_has_its_figures_and_its_rounds() -> None:
    """With intervals, and the name of the data that the chart is drawn from."""
    section = _section(a_record(), "Latency")
    facts = _facts(section)
    assert facts["median"] == "0.4567 -> 0.2345 ms"
    assert facts["speedup"] == "x1.948 [1.901, 1.989]"
    assert facts["null / reference"] == "[0.995, 1.004]"
    assert "p99" not in facts
    (chart,) = _blocks(section, RoundsChart)
    assert chart.name == "rounds-3"


def test_slow_layers_are_one_command_away() -> None:
    """Quoted for a shell, for brackets are patterns there."""
    assert list(_commands(_section(a_record(), "Latency"))) == [
        "pytest-quant profile 'tests/test_digits.py::test_int8[ort-int8-static]'"
    ]


def test_a_latency_that_is_not_to_be_trusted_says_so() -> None:
    """With its reasons; further launches are a table, and a repeated measurement is told."""
    record = a_record()
    assert record.latency is not None
    launches = (LaunchFigures("2026-01-02T03:04:05+00:00", 1.9, 0.24, 0.46),)
    latency = replace(record.latency, reasons=("the null is off",), launches=launches, repeat=record.latency)
    section = _section(replace(record, latency=latency), "Latency")
    assert "timing in doubt: the null is off" in _lines(section)
    assert [table.caption for table in _blocks(section, Table)] == ["Further launches"]
    assert _facts(section)["speedup, measured again"].startswith("x1.948")


def test_a_latency_that_was_not_measured_says_why() -> None:
    """And has no figure."""
    section = _section(replace(a_record(latency=None), latency_off="--quant-no-latency is set"), "Latency")
    assert _lines(section) == ["not measured: --quant-no-latency is set"]
    assert not _facts(section)


def test_coverage_tells_operators_the_heaviest_first() -> None:
    """Nodes and MACs, of them those that are quantized."""
    section = _section(a_record(), "Coverage")
    assert _facts(section)["MACs in int8"] == "87.50 %"
    (table,) = _blocks(section, Table)
    assert [row[0].text for row in table.rows] == ["Conv", "MatMul"]
    assert [cell.text for cell in table.rows[0]] == ["Conv", "4", "3", "8000000", "7000000"]


def test_sizes_have_their_units() -> None:
    """What was not measured is left out."""
    facts = _facts(_section(a_record(), "Size"))
    assert facts["engine"] == "0.0456 MB"
    assert facts["build"] == "1.25 s"
    assert "energy of a run" not in facts


def test_how_to_see_it_again_is_a_line_for_a_shell() -> None:
    """The commit, the test and its history."""
    section = _section(a_record(), "Where it comes from")
    assert list(_commands(section)) == [
        "git checkout c0ffeec0ffee",
        "python -m pytest 'tests/test_digits.py::test_int8[ort-int8-static]'",
        "pytest-quant history tests/test_digits.py::test_int8 ort-int8-static",
    ]
    assert _facts(section)["data digest"] == "def456"


def test_machine_and_versions_are_folded_away() -> None:
    """What must be equal before latencies are compared comes first."""
    (folded,) = (block for block in _blocks(_section(a_record(), "Where it comes from"), Facts) if block.title)
    assert folded.facts == (("cores", "2"), ("cpu", "Some CPU"), ("isa", "avx2"), ("python", "3.11.7"))


def test_a_check_that_never_came_to_be_says_why() -> None:
    """It has no figures, and can be tried again."""
    found = sections(unavailable(), RUN, 0)
    assert [section.title.partition(",")[0] for section in found] == ["Verdicts", "Where it comes from"]
    assert _lines(found[0])[0].startswith("backend 'ort-cuda' cannot run here")
    assert "next: pip install onnxruntime-gpu" in _lines(found[0])


def test_a_check_without_a_limit_says_so() -> None:
    """No limit is no pass of one."""
    record = replace(a_pass(), verdicts=(), status=Status.PASS)
    assert _lines(_section(record, "Verdicts"))[0] == "no limit set"


def test_long_tables_tell_what_they_leave_out() -> None:
    """Fifteen classes are twelve rows and a line."""
    tables = {table.caption: table for table in _blocks(_section(rich_record(), "Accuracy"), Table)}
    assert len(tables["By class"].rows) == 12
    assert tables["By class"].more.startswith("and 3 more; ")
    assert tables["By output"].more == ""


@pytest.mark.parametrize("record", [a_record(), a_pass(), unavailable(), rich_record()])
def test_no_fact_is_empty(record: Record) -> None:
    """A dash alone is not worth a line."""
    for section in sections(record, RUN, 0):
        assert all(text.strip() not in ("", "-") for text in _facts(section).values())
