"""The options of a run: one table, whose rows declare ``--quant-*`` and the ini options, and read their values.

Every start of pytest imports this module, so that it imports nothing large and makes neither dataclass nor named tuple.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_quant.plugin import option_kinds as kinds

if TYPE_CHECKING:
    from pytest_quant.spec import Pages

HISTORY_VARIABLE = "PYTEST_QUANT_HISTORY"
"""Environment variable for the history, so that its password need not be in a file or a command."""


@dataclass(eq=False)
class Option:
    """One option: a row of the table.

    Parameters
    ----------
    kind : of its value; ``None`` for a flag.
    help : as in `argparse`.
    default : the value if the option is not given.
    alone : the value of an option that may be written without one.
    name : of the ini option; ``quant_`` and the name of the field without its unit unless it is given.
    """

    kind: kinds.OptionKind | None
    help: str
    default: object = None
    alone: str | None = None
    name: str = ""

    def __set_name__(self, owner: type, field: str) -> None:
        """Name the option after its field, without the unit."""
        self.name = self.name or f"quant_{field.removesuffix('_file').removesuffix('_pct').removesuffix('_s')}"
        self.flag = "--" + self.name.replace("_", "-")

    @property
    def undone_by(self) -> str:
        """What turns a flag off: ``--no-quant-strict``, and ``--quant-with-latency`` for ``--quant-no-latency``."""
        return self.flag.replace("-no-", "-with-") if "-no-" in self.flag else self.flag.replace("--", "--no-")

    def value(self, config: pytest.Config) -> Any:
        """Return the value of the command line, else of the ini file, else the default.

        A relative path starts at the working directory on the command line, else at the root. ``--no-quant-strict`` on
        the command line overrides the ini file too.

        Raises
        ------
        pytest.UsageError : the value in the ini file is not valid.
        """
        value: object | None = config.getoption(self.name)
        if value is None and self.kind is None:
            return bool(config.getini(self.name))
        if value is None and self.kind is not None and config.getini(self.name):
            try:
                value = self.kind(str(config.getini(self.name)))
            except argparse.ArgumentTypeError as error:
                raise pytest.UsageError(f"ini option {self.name}: {error}") from None
        value = self.default if value is None else value
        if isinstance(value, str) and self.kind in (kinds.FILE, kinds.DIRECTORY):
            return _start(config, self.name) / Path(value).expanduser()
        return value


def _option(kind: kinds.OptionKind, help: str, default: object = None, **more: str) -> Any:  # noqa: A002 - as there
    return Option(kind, help, default, **more)


def _flag(help: str, name: str = "") -> Any:  # noqa: A002 - as there
    return Option(None, help, default=False, name=name)


class Settings:
    """The options of one run. Each attribute is declared with its row, which says what it means.

    The rows stand in the order of the help, see `_HEADINGS`. Paths are absolute. `history` is a file or a database URL,
    ``None`` if nothing is added to a history. `compare` is also on if `compare_base` is given. `latency_off`,
    `accuracy_off` and `portability_off` are the reasons why those are not measured, empty if they are.
    """

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)

    html_file: Path | None = _option(
        kinds.FILE,
        "write a page about this run that a browser opens from the disk: every check, the comparison, the history; "
        "pytest-quant report writes one of earlier runs",
    )
    compare: bool = _flag(
        "compare the records of this run with those of the merge base with the target branch; a regression fails the "
        "run"
    )
    compare_base: str | None = _option(kinds.REVISION, "compare with this revision of git; turns --quant-compare on")
    against: str | None = _option(
        kinds.REVISION,
        "when the tests have run, run those of this revision of git too, in a worktree with its own files, and time "
        "the engines of both in pairs of processes whose runs alternate; a regression fails the run (without REV, or "
        "merge-base: the merge base with the target branch)",
        alone="merge-base",
    )
    against_env: str | None = _option(
        kinds.COMMAND,
        "environment of --quant-against's base, if it is not the environment of this run: an interpreter, or a "
        "command that prints one on its last line, with the base's folder for {worktree} in it",
    )
    against_limit_pct: float = _option(
        kinds.PERCENT,
        "largest slow-down that --quant-against allows a test whose mark sets neither max_slowdown nor "
        "max_p50_increase (default: 5)",
        5.0,
    )
    backend: str = _option(kinds.NAME, "backend of marks that name none (default: ort)", "ort")
    confidence: float | None = _option(
        kinds.LEVEL,
        "ask for proof of max_drop at this level, for example 0.95: judge it on the paired confidence interval in "
        "place of the measured value",
    )
    cpus: str = _option(
        kinds.PROCESSORS,
        "processors that verdicts on INT8 engines must hold on, as cpus in a mark: any, avx2 for x86 without VNNI, or "
        "vnni (default: it is only noted)",
        "",
    )
    diagnose_s: float = _option(
        kinds.SECONDS_OR_NONE,
        "when a limit on accuracy or coverage is broken, look for about this long at most for the cause, and try what "
        "repairs it: other options, and which nodes to exclude (default: 30; 0 tries nothing)",
        30.0,
        name="quant_diagnose_time",
    )
    columns: tuple[str, ...] = _option(
        kinds.NAMES, "columns of the table at the end, in this order; pytest-quant guide reference names them", ()
    )
    history: str | None = _option(
        kinds.LOCATION,
        "add the records to this history (default: $PYTEST_QUANT_HISTORY, else .quant/history.db)",
        ".quant/history.db",
    )
    no_history: bool = _flag("add the records of this run to no history")
    cache: Path = _option(
        kinds.DIRECTORY, "keep built engines and reference outputs here (default: .quant/cache)", ".quant/cache"
    )
    cache_remote: str | None = _option(
        kinds.BUCKET,
        "read what is not in the cache from this bucket, which other machines have filled, and write to it what is "
        "built here: s3:// gs:// az:// https:// file://; credentials are those of the environment",
    )
    latency_off: str = _flag(
        "measure no latency; its limits are then INCONCLUSIVE, never PASS", name="quant_no_latency"
    )
    accuracy_off: str = _flag(
        "measure no accuracy; its limits are then INCONCLUSIVE, never PASS, until this record is joined with that of a "
        "run of the same commit and engines under --quant-no-latency",
        name="quant_only_latency",
    )
    portability_off: str = _flag(
        "do not look on which processors the verdict on an INT8 engine holds; a limit on that is INCONCLUSIVE",
        name="quant_no_portability",
    )
    max_time_s: float = _option(
        kinds.SECONDS,
        "measure the latency of one check for at most this long, warming up and confirming a broken limit included "
        "(default: 10); each further launch has as long again",
        10.0,
    )
    launches: int | Literal["auto"] = _option(
        kinds.LAUNCHES,
        "time each check in N processes, fresh ones that open the built engines and do nothing else, and judge "
        "min_speedup and the median of max_latency_ms over all of them; auto: in more than one only where a limit is "
        "in doubt, until it is decided, in at most 10 (default: 1; a comparison needs 5 on both sides)",
        1,
    )
    workers: str = _option(
        kinds.WORKERS,
        "evaluate large sets on workers of Dask: local:N starts N processes on this machine for each check, and "
        "tls://HOST:PORT, or tcp:// without encryption, names a scheduler that is trusted as code is, whose workers "
        "have the versions of this process; latency stays here, alone (needs the extra dask; pays from some 5 s on)",
        "",
    )
    against_equal: bool = _flag(
        "let --quant-against time engines that are the same on both sides too, which shows the noise of this machine"
    )
    pages: Pages = _option(
        kinds.SIZE_OF_PAGES,
        "small: time engines on the processor on the pages of memory that the system gives, as with max_latency_ms; "
        "huge: move them into pages of 2 MB before, on which two sessions of an engine are alike (default: huge, where "
        "the system can)",
        "huge",
    )
    lock_timeout_s: float = _option(
        kinds.SECONDS,
        "wait for a device that another process measures on, at most this long; then the check is an error that names "
        "that process (default: 600)",
        600.0,
    )
    step_timeout_s: float = _option(
        kinds.SECONDS_OR_NONE,
        "end a single run or build of an engine that takes longer: the check is an error, or, where the runtime cannot "
        "be asked to stop, the process is ended and finished checks are kept (default: 3600; 0 for no limit)",
        3600.0,
    )
    require: tuple[str, ...] = _option(
        kinds.NAMES,
        "backends that must be here: a check on one of them fails if it would be skipped, an unknown name is an "
        "error, and so is one that no test used in a run of the whole suite",
        (),
    )
    strict: bool = _flag(
        "fail checks that could not be judged (INCONCLUSIVE) or have nothing to compare with (NO_BASELINE)"
    )
    json_file: Path | None = _option(
        kinds.FILE, "write the records of this run as JSON; without a check, an empty list"
    )
    markdown_file: Path | None = _option(
        kinds.FILE,
        "write the verdict of this run, and of its comparison, as Markdown for a comment of a pull request, which "
        "pytest-quant comment posts",
    )
    device: str | None = _option(
        kinds.DEVICE,
        "run on this GPU only, cuda:1 or the UUID of a card or of a MIG instance that nvidia-smi -L shows; it is then "
        "cuda:0 everywhere (default: CUDA's first; workers of xdist spread over the GPUs of its model)",
    )
    simulate: str | None = _option(
        kinds.TARGET,
        "on a machine without a GPU, build trt, ort-trt and trt-rtx checks with TensorRT-RTX for this compute "
        "capability and judge them by float simulation; everywhere labelled simulated, and nothing that needs the "
        "device, or for trt and ort-trt their own plan, is measured",
    )


_ROWS = {field: row for field, row in vars(Settings).items() if isinstance(row, Option)}

OPTIONS = tuple(_ROWS.values())

_HEADINGS = {"html_file": "everyday", "latency_off": "speed", "require": "CI", "device": "GPU"}
"""In the help, by the first option under each."""


def add_options(parser: pytest.Parser) -> None:
    """Declare every option on the command line and in the ini file."""
    group = parser.getgroup("quant", "quantized models")
    # What `pytest-quant profile` and `pytest-quant diagnose` give: see `pytest_quant.plugin.single_check`.
    for asked in ("--quant-profile", "--quant-diagnose"):
        group.addoption(asked, metavar="FILE", default=None, help=argparse.SUPPRESS)
    # What `--quant-against` and `pytest-quant bisect` give: see `pytest_quant.plugin.against`.
    group.addoption("--quant-leave", metavar="DIR", default=None, help=argparse.SUPPRESS)
    for field, option in _ROWS.items():
        if heading := _HEADINGS.get(field):
            group = parser.getgroup(f"quant {heading}", f"quantized models, {heading}")
        if option.kind is None:
            # With what undoes it, so that a run can turn off what the ini file turns on.
            group.addoption(option.flag, action="store_true", default=None, help=option.help)
            undo = f"undo {option.flag} or {option.name} = true"
            group.addoption(option.undone_by, dest=option.name, action="store_false", default=None, help=undo)
            parser.addini(option.name, f"as {option.flag}", type="bool", default=False)
        else:
            bare = {} if option.alone is None else {"nargs": "?", "const": option.alone}
            group.addoption(
                option.flag, metavar=option.kind.metavar, type=option.kind, default=None, help=option.help, **bare
            )
            parser.addini(option.name, f"as {option.flag}", type="string", default="")


def is_on_command_line(config: pytest.Config, name: str) -> bool:
    """Whether the option is given on the command line, not only in the ini file."""
    return config.getoption(name) is not None


def read_settings(config: pytest.Config) -> Settings:
    """Read every option. Raises `pytest.UsageError` for a value of the ini file that is not valid."""
    values = {field: row.value(config) for field, row in _ROWS.items()}
    values["compare"] = values["compare"] or values["compare_base"] is not None
    values["latency_off"] = _latency_off(config, is_off=values["latency_off"])
    off = values["latency_off"]
    if off and values["accuracy_off"]:
        raise pytest.UsageError(f"--quant-only-latency leaves nothing to measure: {off}; leave either option out")
    values["accuracy_off"] = "--quant-only-latency is set" if values["accuracy_off"] else ""
    values["portability_off"] = "--quant-no-portability is set" if values["portability_off"] else ""
    values["history"] = None if values["no_history"] else _history(config, values["history"])
    return Settings(**values)


def _start(config: pytest.Config, name: str) -> Path:
    """Return the folder that a relative path in this option starts at."""
    return config.invocation_params.dir if is_on_command_line(config, name) else config.rootpath


def _history(config: pytest.Config, place: str) -> str:
    """Return the place that the command line names, else the environment variable, else the ini file."""
    start = _start(config, "quant_history")
    if (variable := os.environ.get(HISTORY_VARIABLE)) and not is_on_command_line(config, "quant_history"):
        place, start = variable, config.invocation_params.dir
    file = place if "://" in place else str(start / Path(place).expanduser())
    if os.path.isdir(file):  # noqa: PTH112 - see `FILE`
        raise pytest.UsageError(f"the history {file!r} is a folder; name a file in it, as .quant/history.db")
    return file


def _latency_off(config: pytest.Config, *, is_off: bool) -> str:
    """Return which option turns latency off, empty for none; pytest-benchmark's own switches do so too."""
    if is_off:
        return "--quant-no-latency is set"
    for name, overruled_by in (("benchmark_disable", "benchmark_enable"), ("benchmark_skip", "benchmark_only")):
        if config.getoption(name, False) and not config.getoption(overruled_by, False):
            return f"--{name.replace('_', '-')} is set"
    return ""


_BENCHMARK_FILES = ("save", "autosave", "json", "compare", "histogram")


def keeps_benchmarks(config: pytest.Config) -> bool:
    """Whether an option asks pytest-benchmark to save, compare or draw; false if it is not loaded."""
    return any(config.getoption(f"benchmark_{name}", None) for name in _BENCHMARK_FILES)


_SETTINGS = pytest.StashKey[Settings]()


def settings_of(config: pytest.Config) -> Settings:
    """Return the settings of this run, read once."""
    if _SETTINGS not in config.stash:
        config.stash[_SETTINGS] = read_settings(config)
    return config.stash[_SETTINGS]


def shard_of(config: pytest.Config) -> str | None:
    """Return ``3/8`` for the third of eight groups of pytest-split, ``None`` if the suite is not split."""
    splits, group = (config.getoption(name, None) for name in ("splits", "group"))
    return f"{group}/{splits}" if splits and group else None
