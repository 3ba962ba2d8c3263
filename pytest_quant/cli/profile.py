"""``pytest-quant profile``: the layers of one check, measured by pytest in a process of its own."""

from __future__ import annotations

import click
import msgspec

from pytest_quant.cli.alone import ask_alone
from pytest_quant.cli.common import show, show_json, width
from pytest_quant.diagnose.layers import align
from pytest_quant.measure.engine_trio import LayerProfile
from pytest_quant.report.layer_table import layers_document, layers_text


@click.command()
@click.argument("nodeid")
@click.argument("pytest_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- PYTEST_OPTION...]")
@click.option(
    "--top", type=click.IntRange(min=1), default=20, show_default=True, help="Print at most this many rows of layers."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with every layer.")
def profile(nodeid: str, pytest_options: tuple[str, ...], top: int, as_json: bool) -> None:
    """Measure the check of one test, and print the layers of candidate and reference side by side, slowest first.

    Layers that were made from the same nodes of the model stand in one row, whatever the runtimes fused; reformats and
    copies (Q/DQ, changes of type and layout) follow with their share, and sums next to the time of a whole run. Engines
    come from the cache. The test is set up as pytest does it; its body does not run, nothing is judged or kept.

    NODEID is written as for pytest, and must name one marked test. Options of pytest, --quant-cache=DIR for example, go
    after two dashes.

    Exit code: 0 the layers were printed, 1 the check cannot be measured, 2 a question that cannot be answered.

    \b
    Examples:
      pytest-quant profile test_digits.py::test_int8
      pytest-quant profile "test_ladder.py::test_ladder[ort-int8-dynamic]" --top 5
      pytest-quant profile test_digits.py::test_int8 --json > layers.json

    A row with added ms above 0 is where INT8 loses: a product that stayed in float, an operator whose integer kernel is
    slow, or conversions around it. Leave such a node in float with exclude=[...], and measure again.
    """  # noqa: D301 - click reads a backspace
    answer = ask_alone(nodeid, "profile", pytest_options, "--quant-diagnose-time=0")
    measured = msgspec.convert(answer, LayerProfile)
    aligned = align(measured.reference.layers, measured.candidate.layers)
    if as_json:
        show_json(layers_document(measured, aligned))
    else:
        show(layers_text(measured, aligned, width(), top))
