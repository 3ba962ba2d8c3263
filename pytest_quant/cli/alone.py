"""One marked test, run by pytest in a process of its own, which hands back what a command asks for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_quant.cli.common import say
from pytest_quant.errors import UsageError
from pytest_quant.files import temporary_folder

_MANY = 20


def ask_alone(nodeid: str, asked: str, options: Sequence[str], *own: str) -> Any:
    """Return what a run of one test answers; exit with 1 if its check cannot be measured, and say why.

    Parameters
    ----------
    nodeid : of the test.
    asked : ``profile`` or ``diagnose``, see `pytest_quant.plugin.single_check`.
    options : of pytest, from the user.
    own : options of the command, which those of the user overrule.

    Raises
    ------
    UsageError : `nodeid` names no marked test, or several.
    """
    with temporary_folder() as folder:
        file = folder / "answer.json"
        printed = _run_pytest(nodeid, (*own, *options, f"--quant-{asked}={file}"), folder)
        answer: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if "tests" in answer:
        raise _selection_error(nodeid, answer["tests"])
    if "skipped" in answer:
        say(f"error: {nodeid} was skipped: {answer['skipped']}", color="red", err=True)
    elif asked not in answer:
        say(printed.rstrip(), err=True)
    else:
        return answer[asked]
    sys.exit(1)


def _run_pytest(nodeid: str, options: Sequence[str], folder: Path) -> str:
    """Run pytest and return what it printed; lines of progress are shown at once.

    Neither an expected failure nor a selection in the ini file keeps a test from its answer. What runtimes log, often
    thousands of lines, does not stand between an error and its reader.

    Parameters
    ----------
    nodeid : of the tests to collect.
    options : of pytest.
    folder : gets pytest's cache, so that what failed last stays what it is.
    """
    command = [sys.executable, "-m", "pytest", "--runxfail", "-q", "--no-header"]
    command += ["--show-capture=no", "-o", f"cache_dir={folder / 'cache'}", "-m", "", "-k", ""]
    command += ["-n", "0"] if find_spec("xdist") else []
    command += [*options, "--", nodeid]
    lines = []
    with subprocess.Popen(  # nosec B603 # noqa: S603 - our interpreter, and arguments without a shell
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace"
    ) as process:
        try:
            for line in process.stdout or ():
                lines.append(line)
                if line.startswith("quant: "):
                    say(line.rstrip("\n"), err=True)
        except KeyboardInterrupt:
            # The process got it too, and ends with what it knows.
            lines += process.stdout or ()
    return "".join(lines)


def _selection_error(nodeid: str, tests: Sequence[str]) -> UsageError:
    """Return the error for a node id that names none or several of the marked tests."""
    if not tests:
        fix = "mark it, @pytest.mark.quant(max_drop=1.0), or name another; pytest --collect-only -q lists node ids"
        return UsageError(f"'{nodeid}' matches no test that is marked with quant", fix=fix)
    named = "\n    ".join(tests[:_MANY]) + (f"\n    and {len(tests) - _MANY} more" if len(tests) > _MANY else "")
    return UsageError(f"'{nodeid}' matches {len(tests)} marked tests", allowed=f"one of\n    {named}", fix="name one")
