"""The ``--quant-*`` options and the ini options of the same names: declared and parsed.

Nothing large is imported, because every start of pytest imports this module.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import pytest

from pytest_quant.plugin.option_values import (
    device,
    file,
    launches,
    level,
    location,
    name,
    names,
    pages,
    percent,
    seconds,
    seconds_or_none,
    target,
)
from pytest_quant.printable import clean

Parse = Callable[[str], object]


class Option(NamedTuple):
    """One option: `parse` is ``None`` for a flag; `name` is that of the ini option.

    `alone` is the value of an option that may be written without one.
    """

    name: str
    metavar: str
    parse: Parse | None
    help: str
    alone: str | None = None

    @property
    def flag(self) -> str:
        """The spelling on the command line."""
        return "--" + self.name.replace("_", "-")

    def read(self, text: str) -> object:
        """Return the value of a written option. Raises `argparse.ArgumentTypeError` with a text that may be printed."""
        if self.parse is None:
            raise TypeError(f"{self.flag} is a flag")
        try:
            return self.parse(text)
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(clean(str(error))) from None


OPTIONS = (
    Option("quant_backend", "NAME", name, "backend of marks that name none (default: ort)"),
    Option(
        "quant_strict",
        "",
        None,
        "fail checks that could not be judged (INCONCLUSIVE) or have nothing to compare with (NO_BASELINE)",
    ),
    Option(
        "quant_require",
        "NAME[,NAME]",
        names,
        "backends that must be here: a check on one of them fails where it would be skipped, an unknown name is an "
        "error, and so is one that no test used in a run of the whole suite",
    ),
    Option("quant_json", "FILE", file, "write the records of this run as JSON; without a check, an empty list"),
    Option(
        "quant_html",
        "FILE",
        file,
        "write a page about this run that a browser opens from the disk: every check, the comparison, the history; "
        "pytest-quant report writes one of earlier runs",
    ),
    Option(
        "quant_markdown",
        "FILE",
        file,
        "write the verdict of this run, and of its comparison, as Markdown for a comment of a pull request, which "
        "pytest-quant comment posts",
    ),
    Option(
        "quant_no_github",
        "",
        None,
        "where GitHub Actions runs the tests, do not write that Markdown to the summary of the step",
    ),
    Option("quant_cache", "DIR", location, "keep built engines and reference outputs here (default: .quant/cache)"),
    Option(
        "quant_history",
        "FILE_OR_URL",
        location,
        "add the records to this history (default: $PYTEST_QUANT_HISTORY, else .quant/history.db)",
    ),
    Option("quant_no_history", "", None, "add the records of this run to no history"),
    Option(
        "quant_compare",
        "",
        None,
        "compare the records of this run with those of the merge base with the target branch; a regression fails the "
        "run",
    ),
    Option("quant_compare_base", "REV", name, "compare with this revision of git; turns --quant-compare on"),
    Option(
        "quant_against",
        "REV",
        name,
        "when the tests have run, run those of this revision of git too, in a worktree with its own files, and time "
        "the engines of both in pairs of processes whose runs alternate; a regression fails the run (without REV, or "
        "merge-base: the merge base with the target branch)",
        "merge-base",
    ),
    Option(
        "quant_against_env",
        "PYTHON_OR_COMMAND",
        name,
        "environment of --quant-against's base, where it is not that of this run: an interpreter, or a command that "
        "prints one on its last line, with the base's folder for {worktree} in it",
    ),
    Option(
        "quant_against_limit",
        "PERCENT",
        percent,
        "largest slow-down that --quant-against allows a test whose mark sets neither max_slowdown nor "
        "max_p50_increase (default: 5)",
    ),
    Option(
        "quant_against_equal",
        "",
        None,
        "let --quant-against time engines that are the same on both sides too, which shows the noise of this machine",
    ),
    Option("quant_no_latency", "", None, "measure no latency; its limits are then INCONCLUSIVE, never PASS"),
    Option(
        "quant_confidence",
        "LEVEL",
        level,
        "ask for proof of max_drop at this level, for example 0.95: judge it on the paired confidence interval in "
        "place of the measured value",
    ),
    Option(
        "quant_max_time",
        "SECONDS",
        seconds,
        "measure the latency of one check for at most this long, warming up and confirming a broken limit included "
        "(default: 10); each further launch has as long again",
    ),
    Option(
        "quant_launches",
        "N|auto",
        launches,
        "time each check in N processes, fresh ones that open the built engines and do nothing else, and judge "
        "min_speedup and the median of max_latency_ms over all of them; auto: in more than one only where a limit is "
        "in doubt, until it is decided, in at most 10 (default: 1; a comparison needs 5 on both sides)",
    ),
    Option(
        "quant_diagnose_time",
        "SECONDS",
        seconds_or_none,
        "when a limit on accuracy or coverage is broken, try for about this long at most what repairs it: other "
        "options, and which nodes to exclude (default: 30; 0 tries nothing)",
    ),
    Option(
        "quant_lock_timeout",
        "SECONDS",
        seconds,
        "wait for a device that another process measures on, at most this long; then the check is an error that names "
        "that process (default: 600)",
    ),
    Option(
        "quant_pages",
        "SIZE",
        pages,
        "small: time engines on the processor on the pages of memory that the system gives, for what is deployed so; "
        "huge: move them into pages of 2 MB before, on which two sessions of an engine are alike (default: huge, where "
        "the system can)",
    ),
    Option(
        "quant_step_timeout",
        "SECONDS",
        seconds_or_none,
        "end a single run or build of an engine that takes longer: the check is an error, or, where the runtime cannot "
        "be asked to stop, the process is ended and finished checks are kept (default: 3600; 0 for no limit)",
    ),
    Option(
        "quant_simulate",
        "SMxx",
        target,
        "on a machine without a GPU, build trt, ort-trt and trt-rtx checks with TensorRT-RTX for this compute "
        "capability and judge them by float simulation; everywhere labelled simulated, and nothing that needs the "
        "device, or for trt and ort-trt their own plan, is measured",
    ),
    Option(
        "quant_device",
        "DEVICE",
        device,
        "run on this GPU only, cuda:1 or the UUID of a card or of a MIG instance that nvidia-smi -L shows; it is then "
        "cuda:0 everywhere (default: CUDA's first; workers of xdist spread over the GPUs of its model)",
    ),
    Option(
        "quant_columns",
        "NAME[,NAME]",
        names,
        "columns of the table at the end, in this order; pytest-quant guide reference names them",
    ),
)


def add_options(parser: pytest.Parser) -> None:
    """Declare every option on the command line and in the ini file."""
    group = parser.getgroup("quant", "quantized models")
    # What `pytest-quant profile` gives: see `pytest_quant.plugin.profiling`.
    group.addoption("--quant-profile", metavar="FILE", default=None, help=argparse.SUPPRESS)
    # What `--quant-against` and `pytest-quant bisect` give: see `pytest_quant.plugin.leave`.
    group.addoption("--quant-leave", metavar="DIR", default=None, help=argparse.SUPPRESS)
    for option in OPTIONS:
        if option.parse is None:
            # With ``--no-``, so that a run can turn off what the ini file turns on.
            group.addoption(option.flag, action=argparse.BooleanOptionalAction, default=None, help=option.help)
            parser.addini(option.name, f"{option.help}; as {option.flag}", type="bool", default=False)
        else:
            bare = {} if option.alone is None else {"nargs": "?", "const": option.alone}
            group.addoption(
                option.flag, metavar=option.metavar, type=option.read, default=None, help=option.help, **bare
            )
            parser.addini(option.name, f"{option.help}; as {option.flag}", type="string", default="")


def option_value(config: pytest.Config, name: str) -> object | None:
    """Return the parsed value from the command line, else from the ini file, else ``None`` (a flag: ``False``).

    ``--no-quant-strict`` on the command line overrides the ini file too.

    Raises
    ------
    pytest.UsageError : the value in the ini file is not valid.
    """
    option = next(known for known in OPTIONS if known.name == name)
    given: object | None = config.getoption(name)
    if given is not None:
        return given
    written = config.getini(name)
    if option.parse is None:
        return bool(written)
    if written == "":
        return None
    try:
        return option.read(str(written))
    except argparse.ArgumentTypeError as error:
        raise pytest.UsageError(f"ini option {name}: {error}") from None


def on_command_line(config: pytest.Config, name: str) -> bool:
    """Whether the option is given on the command line, not only in the ini file."""
    return config.getoption(name) is not None


def check_options(config: pytest.Config) -> None:
    """Check all values before collection; raises `pytest.UsageError`, which ends pytest with exit code 4."""
    for option in OPTIONS:
        option_value(config, option.name)
