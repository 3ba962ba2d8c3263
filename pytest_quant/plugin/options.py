"""The ``--quant-*`` options and the ini options of the same names: declared, parsed, and one frozen value of a run.

Nothing large is imported, because every start of pytest imports this module.
"""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from pytest_quant.printable import clean

Parse = Callable[[str], object]


DEFAULT_BACKEND = "ort"

FOLDER = ".quant"

TRUST = "quant_cache_trust"
"""An ini option without a flag: whom to trust is settled in a file that is reviewed, not in the line of one run."""

HISTORY_VARIABLE = "PYTEST_QUANT_HISTORY"
"""Environment variable for the history, so that its password need not be in a file or a command."""


def _name(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("write a name, for example ort")
    return text.strip()


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.replace("\n", ",").split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("write one name or several with commas between them, for example ort,trt")
    return names


def _level(text: str) -> float:
    level = _number(text, "0.95")
    if not 0.0 < level < 1.0:
        raise argparse.ArgumentTypeError(f"{text} is not a level strictly between 0 and 1; write 0.95")
    return level


def _seconds(text: str) -> float:
    seconds = _number(text, "30")
    if not (seconds > 0.0 and math.isfinite(seconds)):
        raise argparse.ArgumentTypeError(f"{text} is not a time above 0 in seconds; write 30")
    return seconds


def _seconds_or_none(text: str) -> float:
    seconds = _number(text, "30")
    if not (seconds >= 0.0 and math.isfinite(seconds)):
        raise argparse.ArgumentTypeError(f"{text} is not a time in seconds; write 30, or 0 for none")
    return seconds


def _number(text: str, example: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number; write {example}") from None


def _target(text: str) -> str:
    if not re.fullmatch(r"SM\d{2,3}", text.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a compute capability; write SM89")
    return text.strip()


def _device(text: str) -> str:
    if not re.fullmatch(r"cuda:\d{1,3}|(GPU|MIG)-[0-9a-f][0-9a-f-]*", text.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is no GPU; write cuda:1, or a UUID, GPU-8932f937 or MIG-c7384736")
    return text.strip()


def _file(text: str) -> str:
    if not text.strip() or Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder or empty; write the name of a file")
    return text


def _location(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("write a file, a folder or a database URL")
    return text


class Option(NamedTuple):
    """One option: `parse` is ``None`` for a flag; `name` is that of the ini option."""

    name: str
    metavar: str
    parse: Parse | None
    help: str

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
    Option("quant_backend", "NAME", _name, "backend of marks that name none (default: ort)"),
    Option(
        "quant_strict",
        "",
        None,
        "fail checks that could not be judged (INCONCLUSIVE) or have nothing to compare with (NO_BASELINE)",
    ),
    Option(
        "quant_require",
        "NAME[,NAME]",
        _names,
        "backends that must be here: a check on one of them fails where it would be skipped, an unknown name is an "
        "error, and so is one that no test used in a run of the whole suite",
    ),
    Option("quant_json", "FILE", _file, "write the records of this run as JSON; without a check, an empty list"),
    Option("quant_cache", "DIR", _location, "keep built engines and reference outputs here (default: .quant/cache)"),
    Option(
        "quant_history",
        "FILE_OR_URL",
        _location,
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
    Option("quant_compare_base", "REV", _name, "compare with this revision of git; turns --quant-compare on"),
    Option("quant_no_latency", "", None, "measure no latency; its limits are then INCONCLUSIVE, never PASS"),
    Option(
        "quant_confidence",
        "LEVEL",
        _level,
        "ask for proof of max_drop at this level, for example 0.95: judge it on the paired confidence interval in "
        "place of the measured value",
    ),
    Option(
        "quant_max_time",
        "SECONDS",
        _seconds,
        "measure the latency of one check for at most so long, warming up and confirming a broken limit included "
        "(default: 10)",
    ),
    Option(
        "quant_diagnose_time",
        "SECONDS",
        _seconds_or_none,
        "when a limit on accuracy or coverage is broken, try for at most about so long what mends it: other options, "
        "and which nodes to exclude (default: 30; 0 tries nothing)",
    ),
    Option(
        "quant_lock_timeout",
        "SECONDS",
        _seconds,
        "wait for a device that another process measures on for at most so long; then the check is an error that names "
        "that process (default: 600)",
    ),
    Option(
        "quant_lock_clocks",
        "",
        None,
        "lock the clocks of a GPU at its base while engines are timed on it, and free them after, also from a lock "
        "that was there before; where this user may not (it needs root), say so and time without",
    ),
    Option(
        "quant_step_timeout",
        "SECONDS",
        _seconds_or_none,
        "end a single run or build of an engine that takes longer: the check is an error, or, where the runtime cannot "
        "be asked to stop, the process is ended and finished checks are kept (default: 3600; 0 for no limit)",
    ),
    Option(
        "quant_simulate",
        "SMxx",
        _target,
        "on a machine without a GPU, build trt, ort-trt and trt-rtx checks with TensorRT-RTX for this compute "
        "capability and judge them by float simulation; everywhere labelled simulated, and nothing that needs the "
        "device, or for trt and ort-trt their own plan, is measured",
    ),
    Option(
        "quant_device",
        "DEVICE",
        _device,
        "run on this GPU only, cuda:1 or the UUID of a card or of a MIG instance that nvidia-smi -L shows; it is then "
        "cuda:0 everywhere (default: CUDA's first; workers of xdist spread over the GPUs of its model)",
    ),
    Option("quant_columns", "NAME[,NAME]", _names, "columns of the table at the end, in this order"),
)


def add_options(parser: pytest.Parser) -> None:
    """Declare every option on the command line and in the ini file."""
    group = parser.getgroup("quant", "quantized models")
    group.addoption(
        "--quant-doctor",
        action="store_true",
        help="tell which backends can run here and how to fix the others, and run no test; fails when one of "
        "--quant-require cannot",
    )
    # What `pytest-quant profile` gives: see `pytest_quant.plugin.profiling`.
    group.addoption("--quant-profile", metavar="FILE", default=None, help=argparse.SUPPRESS)
    for option in OPTIONS:
        if option.parse is None:
            # With ``--no-``, so that a run can turn off what the ini file turns on.
            group.addoption(option.flag, action=argparse.BooleanOptionalAction, default=None, help=option.help)
            parser.addini(option.name, f"{option.help}; as {option.flag}", type="bool", default=False)
        else:
            group.addoption(option.flag, metavar=option.metavar, type=option.read, default=None, help=option.help)
            parser.addini(option.name, f"{option.help}; as {option.flag}", type="string", default="")
    parser.addini(
        TRUST,
        "folders, one in each line, whose cached engines are taken whoever wrote them: a cache is code; else only "
        "engines count that this user built, in a folder that others cannot write to",
        type="paths",
        default=[],
    )


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


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of one run, resolved.

    Attributes
    ----------
    backend : for marks that name none.
    strict : INCONCLUSIVE and NO_BASELINE fail.
    require : backends that must be available and be used.
    json_file : file for the records of the run, ``None`` for none.
    cache : folder of engines and reference outputs.
    cache_trust : folders whose entries are taken whoever wrote them.
    history : a file or a database URL, ``None`` when nothing is added to a history. The command line takes precedence
        over the environment variable, which takes precedence over the ini file.
    compare : compare the records of this run with earlier ones.
    compare_base : the revision to compare with; ``None`` for the merge base.
    latency_off : reason why latency is not measured; empty when it is.
    confidence : judge accuracy by its interval at this level; ``None`` judges it by the measured value.
    max_time_s : longest latency measurement of one check in seconds; ``None`` for the default.
    diagnose_s : longest search for remedies of a broken limit in seconds; ``None`` for the default.
    lock_timeout_s : longest wait for a device that another process holds, in seconds; ``None`` for the default.
    lock_clocks : lock the clocks of a GPU while engines are timed on it.
    step_timeout_s : longest single run or build of an engine in seconds, 0 for any; ``None`` for the default.
    simulate : compute capability to simulate TensorRT checks for where there is no GPU; ``None`` for never.
    columns : of the table at the end; empty for the default.
    """

    backend: str
    strict: bool
    require: tuple[str, ...]
    json_file: Path | None
    cache: Path
    cache_trust: tuple[Path, ...]
    history: str | None
    compare: bool
    compare_base: str | None
    latency_off: str
    confidence: float | None
    max_time_s: float | None
    diagnose_s: float | None
    lock_timeout_s: float | None
    lock_clocks: bool
    step_timeout_s: float | None
    simulate: str | None
    columns: tuple[str, ...]

    @classmethod
    def from_config(cls, config: pytest.Config) -> Settings:
        """Read every option; paths are relative to the working directory on the command line, else to the root."""
        json_file = _path(config, "quant_json")
        return cls(
            backend=cast("str | None", option_value(config, "quant_backend")) or DEFAULT_BACKEND,
            strict=bool(option_value(config, "quant_strict")),
            require=_listed(config, "quant_require"),
            json_file=json_file,
            cache=_path(config, "quant_cache") or config.rootpath / FOLDER / "cache",
            cache_trust=tuple(config.getini(TRUST)),
            history=_history(config),
            compare=bool(option_value(config, "quant_compare") or option_value(config, "quant_compare_base")),
            compare_base=cast("str | None", option_value(config, "quant_compare_base")),
            latency_off=_latency_off(config),
            confidence=cast("float | None", option_value(config, "quant_confidence")),
            max_time_s=cast("float | None", option_value(config, "quant_max_time")),
            diagnose_s=cast("float | None", option_value(config, "quant_diagnose_time")),
            lock_timeout_s=cast("float | None", option_value(config, "quant_lock_timeout")),
            lock_clocks=bool(option_value(config, "quant_lock_clocks")),
            step_timeout_s=cast("float | None", option_value(config, "quant_step_timeout")),
            simulate=cast("str | None", option_value(config, "quant_simulate")),
            columns=_listed(config, "quant_columns"),
        )


def _listed(config: pytest.Config, name: str) -> tuple[str, ...]:
    return tuple(cast("list[str] | None", option_value(config, name)) or ())


def _path(config: pytest.Config, name: str) -> Path | None:
    text = cast("str | None", option_value(config, name))
    if text is None:
        return None
    start = config.invocation_params.dir if on_command_line(config, name) else config.rootpath
    return start / Path(text).expanduser()


def _history(config: pytest.Config) -> str | None:
    if option_value(config, "quant_no_history"):
        return None
    asked = cast("str | None", option_value(config, "quant_history"))
    variable = os.environ.get(HISTORY_VARIABLE)
    if variable and not on_command_line(config, "quant_history"):
        return variable if "://" in variable else str(config.invocation_params.dir / Path(variable).expanduser())
    if asked is not None and "://" in asked:
        return asked
    return str(_path(config, "quant_history") or config.rootpath / FOLDER / "history.db")


def _latency_off(config: pytest.Config) -> str:
    """Return which option turns latency off, empty for none; pytest-benchmark's own switches do so too."""
    if option_value(config, "quant_no_latency"):
        return "--quant-no-latency is set"
    for name, overruled_by in (("benchmark_disable", "benchmark_enable"), ("benchmark_skip", "benchmark_only")):
        if config.getoption(name, False) and not config.getoption(overruled_by, False):
            return f"--{name.replace('_', '-')} is set"
    return ""


_SETTINGS = pytest.StashKey[Settings]()


def settings_of(config: pytest.Config) -> Settings:
    """Return the settings of this run, read once."""
    if _SETTINGS not in config.stash:
        config.stash[_SETTINGS] = Settings.from_config(config)
    return config.stash[_SETTINGS]
