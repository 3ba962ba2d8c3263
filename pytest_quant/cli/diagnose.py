"""``pytest-quant diagnose``: why one check fails, found by pytest in a process of its own."""

from __future__ import annotations

import re

import click

from pytest_quant.cli.alone import ask_alone
from pytest_quant.cli.common import show, show_json, width
from pytest_quant.errors import UsageError
from pytest_quant.record import from_json
from pytest_quant.report.cause_text import cause_text

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def _read_time(_context: click.Context, _option: click.Parameter, text: str) -> float:
    """Return the seconds of a time as users write it. Raises `UsageError` for anything else."""
    written = re.fullmatch(r"\s*(\d{1,6}(?:\.\d+)?) ?([a-z]*)\s*", text)
    if written is None or written[2] not in _SECONDS or not float(written[1]):
        raise UsageError("--budget is no time above 0", value=text, allowed="300, 90s, 5m or 1h", fix="--budget 5m")
    return float(written[1]) * _SECONDS[written[2]]


@click.command()
@click.argument("nodeid")
@click.argument("pytest_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- PYTEST_OPTION...]")
@click.option(
    "--budget",
    default="5m",
    metavar="TIME",
    show_default=True,
    callback=_read_time,
    help="Search for about this long: 300, 90s, 5m.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the cause as one JSON document, null if there is none.")
def diagnose(nodeid: str, pytest_options: tuple[str, ...], budget: float, as_json: bool) -> None:
    """Search for the cause why the check of one test fails, and print it with all that was asked.

    The stage comes first: calibration, one range, the weights of a layer, a layer, the kernels, or none of them, if the
    error is spread. Tables follow: how close the outputs stay with a part of the roundings, the ranges of the engine
    beside those of evaluation samples, and what each rounding costs. What repairs it, as tried, comes last.

    Engines come from the cache. The test is set up as pytest does it, without latency; its body does not run, and no
    record is kept. NODEID is written as for pytest, and must name one marked test. Options of pytest, --quant-cache=DIR
    for example, go after two dashes.

    Exit code: 0 the check was judged, 1 it cannot be measured, 2 a question that cannot be answered.

    \b
    Examples:
      pytest-quant diagnose test_digits.py::test_int8
      pytest-quant diagnose "test_ladder.py::test_ladder[ort-int8-static]" --budget 90s
      pytest-quant diagnose test_digits.py::test_int8 --json > cause.json

    A cause is calibration, for example, if 9 of 14 ranges lie far from those of evaluation samples: give the dataset
    calibration samples that were prepared as those are, and ask again.
    """  # noqa: D301 - click reads a backspace
    own = (f"--quant-diagnose-time={budget:g}", "--quant-no-latency", "--no-quant-only-latency")
    answer = ask_alone(nodeid, "diagnose", pytest_options, *own)
    if as_json:
        show_json(answer["cause"])
    else:
        show(cause_text(from_json(answer), width()))
