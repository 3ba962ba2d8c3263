"""``pytest-quant profile``: one check is measured by pytest in a process of its own, which hands its layers back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import msgspec

from pytest_quant.cli.common import say, show, show_json, width
from pytest_quant.diagnose.layers import align
from pytest_quant.errors import UsageError
from pytest_quant.files import temporary_folder
from pytest_quant.measure.engine_trio import LayerProfile
from pytest_quant.report.layer_table import layers_document, layers_text

_MANY = 20


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
    with temporary_folder() as folder:
        file = folder / "profile.json"
        printed = _run_pytest(nodeid, pytest_options, file, folder)
        answer: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if "profile" in answer:
        _print(answer["profile"], top, as_json=as_json)
    elif "skipped" in answer:
        say(f"error: {nodeid} was skipped: {answer['skipped']}", color="red", err=True)
        sys.exit(1)
    elif "tests" in answer:
        raise _selection_error(nodeid, answer["tests"])
    else:
        say(printed.rstrip(), err=True)
        sys.exit(1)


def _run_pytest(nodeid: str, options: Sequence[str], file: Path, folder: Path) -> str:
    """Run pytest and return what it printed; lines of progress are shown at once.

    Neither an expected failure nor a selection in the ini file keeps a test from its profile. What runtimes log, often
    thousands of lines, does not stand between an error and its reader.

    Parameters
    ----------
    nodeid : of the tests to collect.
    options : of pytest, from the user.
    file : see `pytest_quant.plugin.profiling`.
    folder : gets pytest's cache, so that what failed last stays what it is.
    """
    command = [sys.executable, "-m", "pytest", f"--quant-profile={file}", "--quant-diagnose-time=0", "--runxfail"]
    command += ["-q", "--no-header", "--show-capture=no", "-o", f"cache_dir={folder / 'cache'}", "-m", "", "-k", ""]
    command += ["-n", "0"] if find_spec("xdist") else []
    command += [*options, "--", nodeid]
    lines = []
    with subprocess.Popen(  # nosec B603 # noqa: S603 - our interpreter, and arguments without a shell
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace"
    ) as process:
        for line in process.stdout or ():
            lines.append(line)
            if line.startswith("quant: "):
                say(line.rstrip("\n"), err=True)
    return "".join(lines)


def _selection_error(nodeid: str, tests: Sequence[str]) -> UsageError:
    """Return the error for a node id that names none or several of the marked tests."""
    if not tests:
        fix = "mark it, @pytest.mark.quant(max_drop=1.0), or name another; pytest --collect-only -q lists node ids"
        return UsageError(f"'{nodeid}' matches no test that is marked with quant", fix=fix)
    named = "\n    ".join(tests[:_MANY]) + (f"\n    and {len(tests) - _MANY} more" if len(tests) > _MANY else "")
    return UsageError(f"'{nodeid}' matches {len(tests)} marked tests", allowed=f"one of\n    {named}", fix="name one")


def _print(document: object, top: int, *, as_json: bool) -> None:
    measured = msgspec.convert(document, LayerProfile)
    aligned = align(measured.reference.layers, measured.candidate.layers)
    if as_json:
        show_json(layers_document(measured, aligned))
    else:
        show(layers_text(measured, aligned, width(), top))
