"""The options of one run as one frozen value: command line, environment and ini file, in this order."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import pytest

from pytest_quant.plugin.options import on_command_line, option_value

if TYPE_CHECKING:
    from pytest_quant.spec import Pages

DEFAULT_BACKEND = "ort"

FOLDER = ".quant"

HISTORY_VARIABLE = "PYTEST_QUANT_HISTORY"
"""Environment variable for the history, so that its password need not be in a file or a command."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of one run, resolved.

    Attributes
    ----------
    backend : for marks that name none.
    strict : INCONCLUSIVE and NO_BASELINE fail.
    require : backends that must be available and be used.
    json_file : file for the records of the run, ``None`` for none.
    html_file : file for the page about the run, ``None`` for none.
    markdown_file : file for the run as a comment of a pull request, ``None`` for none.
    for_github : GitHub Actions runs the tests, and gets a summary of the step.
    cache : folder of engines and reference outputs.
    history : a file or a database URL, ``None`` when nothing is added to a history. The command line takes precedence
        over the environment variable, which takes precedence over the ini file.
    compare : compare the records of this run with earlier ones.
    compare_base : the revision to compare with; ``None`` for the merge base.
    against : the revision whose tests are run and timed beside these; ``None`` for no such comparison.
    against_env : the interpreter of its environment, or a command that makes one; ``None`` for that of this run.
    against_limit_pct : largest slow-down in percent where a mark sets none; ``None`` for the default.
    against_equal : time engines that are the same there too.
    latency_off : reason why latency is not measured; empty when it is.
    confidence : judge accuracy by its interval at this level; ``None`` judges it by the measured value.
    max_time_s : longest latency measurement of one check in seconds; ``None`` for the default.
    launches : processes that time each check; ``"auto"``: more than one where a limit is in doubt; ``None`` for one, or
        as many as a comparison lacks.
    diagnose_s : longest search for remedies of a broken limit in seconds; ``None`` for the default.
    lock_timeout_s : longest wait for a device that another process holds, in seconds; ``None`` for the default.
    pages : under engines on the processor while they are timed, see `LatencyPlan.pages`.
    step_timeout_s : longest single run or build of an engine in seconds, 0 for any; ``None`` for the default.
    simulate : compute capability to simulate TensorRT checks for where there is no GPU; ``None`` for never.
    columns : of the table at the end; empty for the default.
    """

    backend: str
    strict: bool
    require: tuple[str, ...]
    json_file: Path | None
    html_file: Path | None
    markdown_file: Path | None
    for_github: bool
    cache: Path
    history: str | None
    compare: bool
    compare_base: str | None
    against: str | None
    against_env: str | None
    against_limit_pct: float | None
    against_equal: bool
    latency_off: str
    confidence: float | None
    max_time_s: float | None
    launches: int | Literal["auto"] | None
    diagnose_s: float | None
    lock_timeout_s: float | None
    pages: Pages
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
            html_file=_path(config, "quant_html"),
            markdown_file=_path(config, "quant_markdown"),
            for_github=os.environ.get("GITHUB_ACTIONS") == "true" and not option_value(config, "quant_no_github"),
            cache=_path(config, "quant_cache") or config.rootpath / FOLDER / "cache",
            history=_history(config),
            compare=bool(option_value(config, "quant_compare") or option_value(config, "quant_compare_base")),
            compare_base=cast("str | None", option_value(config, "quant_compare_base")),
            against=cast("str | None", option_value(config, "quant_against")),
            against_env=cast("str | None", option_value(config, "quant_against_env")),
            against_limit_pct=cast("float | None", option_value(config, "quant_against_limit")),
            against_equal=bool(option_value(config, "quant_against_equal")),
            latency_off=_latency_off(config),
            confidence=cast("float | None", option_value(config, "quant_confidence")),
            max_time_s=cast("float | None", option_value(config, "quant_max_time")),
            launches=cast('int | Literal["auto"] | None', option_value(config, "quant_launches")),
            diagnose_s=cast("float | None", option_value(config, "quant_diagnose_time")),
            lock_timeout_s=cast("float | None", option_value(config, "quant_lock_timeout")),
            pages=cast("Pages | None", option_value(config, "quant_pages")) or "huge",
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
