"""``pytest-quant check``: one check of a model without a test file, and the test that would do the same."""

from __future__ import annotations

import ast
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import click

from pytest_quant.cli.common import nearest_folder, say, split_names
from pytest_quant.files import temporary_folder
from pytest_quant.marks.keys import KEYS, LISTABLE, read
from pytest_quant.spec import LIMITS

_WHAT = ("backend", "precision", "scheme", "quantized", "metric", "output")
"""Keys of the mark beside the limits that are options too; what only fixtures can give is not."""

_FILE = click.Path(exists=True, dir_okay=False)


def _mark_options(command: click.Command) -> click.Command:
    """Add an option for each key."""
    for name in (*_WHAT, *LIMITS):
        flag = f"--{name.replace('_', '-')}"
        command.params.append(click.Option([flag, name], metavar="VALUE", help=KEYS[name].help))
    return command


@_mark_options
@click.command()
@click.argument("model")
@click.argument("pytest_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- PYTEST_OPTION...]")
@click.option("--data", required=True, type=_FILE, help="The samples, as np.savez or np.save write them.")
@click.option("--labels", type=_FILE, help="The labels, as np.save writes them  [the array 'labels' of --data]")
def check(model: str, pytest_options: tuple[str, ...], data: str, labels: str | None, **given: str | None) -> None:
    """Check MODEL once without a test file, and print the test that does the same.

    MODEL is an ONNX file, or module:attribute of a torch module with example inputs, as for pytest-quant init. The
    samples are arrays of a file of NumPy, by the names of the model's inputs, or its only array. It is quantized, run
    beside FP32 and timed, as in a run of pytest, and the limits that you give are judged. Up to 100 samples, a tenth of
    them, calibrate, and are not evaluated. No record is kept; engines are, if there is a folder .quant here or above.

    Options of pytest, --quant-json=FILE for example, go after two dashes.

    Exit code: that of pytest; 0 the limits hold, 1 one is broken, 2 a question that cannot be answered.

    \b
    Examples:
      pytest-quant check digits.onnx --data digits.npz
      pytest-quant check digits.onnx --data images.npy --labels labels.npy --max-drop 1.0 --min-speedup 1.2
      pytest-quant check package.nets:example --data x.npz --backend torch,ort --min-sqnr-db 20
    """  # noqa: D301 - click reads a backspace
    mark = {name: _value(name, text) for name, text in given.items() if text is not None}
    read(mark)
    # Here, because they load numpy and more, which help does without.
    from pytest_quant.init.model_search import find_model
    from pytest_quant.init.one_test import write_test

    here, place = Path.cwd(), Path(model).resolve()
    # A file may lie outside of this folder; a module is imported from here.
    root = here if place.is_relative_to(here) else Path(place.anchor)
    text = write_test(find_model(root, here, model, "."), model, data, labels, mark)
    with temporary_folder() as folder:
        # Not the configuration of a project around, which is for its own tests.
        (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
        (folder / "test_check.py").write_text(text, "utf-8")
        kept = nearest_folder()
        cache = (kept if kept.is_dir() else folder) / "cache"
        command = [sys.executable, "-m", "pytest", f"--rootdir={here}", "-q"]
        command += ["--no-header", "-p", "no:cacheprovider", f"--benchmark-storage=file://{folder / 'benchmarks'}"]
        command += ["--quant-no-history", f"--quant-cache={cache}"]
        command += [*pytest_options, "--", str(folder / "test_check.py")]
        code = subprocess.run(command, check=False).returncode  # nosec B603 # noqa: S603 - our interpreter
    say(f"\nThe test that does the same, run from this folder:\n\n{text}")
    sys.exit(code)


def _value(name: str, text: str) -> object:
    """Return the value of a key of the mark as an option has it: names with commas between them, a number or a dict."""
    if name in LIMITS:
        with suppress(ValueError, SyntaxError):
            return ast.literal_eval(text)
    names = split_names(text)
    return list(names) if name in (*LISTABLE, "output") and len(names) > 1 else text
