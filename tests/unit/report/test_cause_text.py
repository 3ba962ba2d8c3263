"""What ``pytest-quant diagnose`` prints of known records."""

from __future__ import annotations

from dataclasses import replace

import click
import pytest
from rich.cells import cell_len

from pytest_quant.record import Record
from pytest_quant.report.cause_text import cause_text
from pytest_quant.result import Hint, RangeRow, SiteRow, Status, Verdict
from tests.unit.record.examples import CAUSE, a_pass, a_record

EXPLAINED = replace(
    a_record(), cause=CAUSE, hints=(Hint("drop 4.23 -> 0.30 pp on 64 of 1797 samples", "calibration='entropy'"),)
)
SAID = """\
tests/test_digits.py::test_int8[ort-int8-static]: max_drop 4.23 > 1.0 pp

cause: calibration, 2 of 3 ranges do not fit the evaluation samples
without it: max_drop 4.23 -> 0.30 pp on 64 of 1797 samples

What was asked:
rounded                SQNR dB
the engine                12.1
weights alone rounded     40.2
nothing                  equal

Ranges of the engine and of evaluation samples, 2 of 3 off:
products beside it             engine  samples  times as wide
/conv1/Conv, /relu1/Relu     [0, 255]  [-2, 2]           63.8
/fc/Gemm                  [-0.5, 0.5]  [-1, 1]            0.5
/relu1/Relu                  [0, 2.5]   [0, 2]           1.25

Squared error that goes without one rounding:
products beside it         what  share %  own dB  channels
/fc/Gemm                weights     81.2    14.2        34
/conv1/Conv         activations     -2.5   equal       1.5

the model is a file, so nobody saw how it was exported

try:
- calibration='entropy': drop 4.23 -> 0.30 pp on 64 of 1797 samples"""


def test_the_cause_comes_first_and_what_to_try_last() -> None:
    """Between them all that was asked, the worst first; labels alone have colours."""
    text = cause_text(EXPLAINED, 100)
    assert click.unstyle(text) == SAID
    assert [line for line in text.splitlines() if "\x1b" in line] == [
        f"{click.style('cause:', fg='yellow', bold=True)} calibration, 2 of 3 ranges do not fit the evaluation samples",
        click.style("try:", fg="yellow", bold=True),
    ]


@pytest.mark.parametrize("width", [64, 80, 120])
def test_names_of_a_model_neither_act_nor_widen_a_table(width: int) -> None:
    """However long they are; each range and site is there, up to a dozen, and the others are counted."""
    name = f"\x1b[31m{'model/encoder/' * 20}conv\n"
    ranges = tuple(RangeRow((f"{name}{i}",), (0.0, 9.0), (0.0, 1.0 + i)) for i in range(15))
    sites = tuple(SiteRow((f"{name}{i}",), "weights", 1.0 + i, 20.0, 1.0) for i in range(12))
    text = cause_text(replace(EXPLAINED, cause=replace(CAUSE, ranges=ranges, sites=sites)), width)
    assert [line.split()[0] for line in text.splitlines() if "\x1b" in line] == [
        click.style(label, fg="yellow", bold=True) for label in ("cause:", "try:")
    ]
    lines = click.unstyle(text)
    assert max(map(cell_len, lines.splitlines())) <= width
    assert lines.replace("\n", "").isprintable()
    assert "and 3 more; --json prints all of them" in lines
    assert lines.count("weights ") == 12 + 1


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (a_pass(), "PASS; every limit holds, so there is no cause to search for"),
        (
            a_record(verdicts=(Verdict("max_size_mb", 0.04, 0.0456, Status.FAIL, "too large"),)),
            "no limit on the outputs is broken, and only such a limit has a cause; not passed: max_size_mb",
        ),
        (a_record(), "the roundings of ort-int8-static cannot be left out one by one, or the time was too short"),
    ],
)
def test_why_there_is_no_cause_is_one_sentence(record: Record, why: str) -> None:
    """Beside the test and what is broken."""
    assert why in " ".join(cause_text(record, 100).split())
