"""The end of a run as a value, and the files that are made from it: JSON, a page, Markdown for a pull request."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_quant.errors import HistoryError
from pytest_quant.files import next_step, write_whole
from pytest_quant.plugin.settings import settings_of

if TYPE_CHECKING:
    from pytest_quant.cache.remote import Traffic
    from pytest_quant.history.compare.comparison import Comparison
    from pytest_quant.history.trends import SeriesHistory
    from pytest_quant.history.unfinished_runs import UnfinishedRun
    from pytest_quant.record import Record, Run

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""Environment variable of GitHub Actions that names the file of the step's summary."""

MAX_SUMMARY_BYTES = 1024 * 1024
"""GitHub shows none of a summary that is larger."""


@dataclass(slots=True, kw_only=True)
class RunEnd:
    """A run from its first finished check on, and what becomes of it at its end.

    Attributes
    ----------
    run : ``None`` without a check.
    journal : of the finished checks, until they are stored; ``None`` where no history is written, or the disk refuses.
    failed : the tests let the run fail.
    broken : node ids of tests with a record that failed and should not have.
    records : of the checks, in the order of the tests.
    compared : the comparison of ``--quant-compare``, if there is one.
    regression : why ``--quant-compare`` lets the run fail; empty if it does not.
    against : the comparison of ``--quant-against``, if there is one.
    not_compared : why there is none although it was asked for.
    notes : what the user should know beside the checks.
    traffic : with the shared cache, if there is one.
    warnings : problems that do not change the exit code.
    faults : problems that make the run fail, beside the regression.
    """

    run: Run | None = None
    journal: UnfinishedRun | None = None
    failed: bool = False
    broken: set[str] = field(default_factory=set)
    records: tuple[Record, ...] = ()
    compared: Comparison | None = None
    regression: str = ""
    against: Comparison | None = None
    not_compared: str = ""
    notes: list[str] = field(default_factory=list)
    traffic: Traffic | None = None
    warnings: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def close_journal(self, *, stored: bool) -> None:
        """Give up what is on the disk: it is `stored` elsewhere, or left to the next run."""
        if self.journal is not None:
            self.journal.close(stored=stored)
            self.journal = None

    def add_traffic(self, figures: Sequence[Any]) -> None:
        """Add the traffic of a process, the fields of `Traffic` as a worker of xdist sends them."""
        from pytest_quant.cache.remote import Traffic

        self.traffic = (self.traffic or Traffic()) + Traffic(*figures)

    @property
    def comparisons(self) -> list[Comparison]:
        """The comparisons, that of ``--quant-compare`` first."""
        beside = self.against and replace(self.against, about=(f"timed beside it: {self.against.about[0]}",))
        return [each for each in (self.compared, beside) if each is not None]


_END = pytest.StashKey[RunEnd]()


def end_of(config: pytest.Config) -> RunEnd:
    """Return the end of the run of this process, which begins empty."""
    return config.stash.setdefault(_END, RunEnd())


def write_output(option: str, file: Path, content: bytes) -> list[str]:
    """Write the file that an option names, in one step; its folder is made. Return why that failed, if it did."""
    try:
        write_whole(file, content)
    except OSError as error:
        step = next_step(error, "name a file in a writable folder")
        return [f"{option}: {file} cannot be written: {error.strerror or error}; next: {step}"]
    return []


def write_page(config: pytest.Config, end: RunEnd) -> None:
    """Write the page of ``--quant-html``, with what the history knows of the run's series."""
    settings = settings_of(config)
    if settings.html_file is None or end.run is None:
        return
    # Here, because only a run with a page should import what makes one.
    from pytest_quant.history.rows import StoredCheck
    from pytest_quant.report.page import page_html

    history, why_no_history = _history(config, [record.series for record in end.records])
    # Of two, the one that was timed beside this run, which has less noise.
    shown = end.comparisons[-1:]
    why_not = f"--quant-against: {end.not_compared}" if end.not_compared else end.regression
    page = page_html(
        [StoredCheck(end.run, record) for record in end.records],
        runs=(end.run,),
        broken=end.broken,
        compared=shown[0] if shown else None,
        why_not_compared="" if shown else why_not or "This run was not compared with another commit.",
        next_step="" if settings.compare or settings.against else "pytest --quant-compare --quant-html=FILE",
        history=history,
        why_no_history=why_no_history,
    )
    end.faults += write_output("--quant-html", settings.html_file, page)


def _history(config: pytest.Config, keys: Sequence[str]) -> tuple[list[SeriesHistory], str]:
    """Return the history of the series, or why there is none."""
    from pytest_quant.history import open_store
    from pytest_quant.history.baselines.file import NAME, read_baselines
    from pytest_quant.history.trends import series_histories

    place = settings_of(config).history
    if place is None:
        return [], "The history is turned off."
    try:
        history = series_histories(open_store(place, config.rootpath), keys, read_baselines(config.rootpath / NAME))
    except HistoryError as error:
        return [], f"The history cannot be read: {error}"
    return history, "The history has no series of this run yet."


def write_markdown(config: pytest.Config, end: RunEnd) -> None:
    """Write the run as Markdown, if that is asked for: to a file, and to the summary of a step of GitHub Actions."""
    settings = settings_of(config)
    summary = os.environ.get(SUMMARY_VARIABLE) if end.records else None
    if settings.markdown_file is None and not summary:
        return
    # Here, because only a run that writes Markdown should import it, and the comparisons with it.
    from pytest_quant.environment.revision import ci_links
    from pytest_quant.report.pull_request import run_comment

    # The comparison itself says what regressed, but not why there is none.
    faults = [*end.faults, *([end.regression] if end.regression and end.compared is None else [])]
    if end.not_compared:
        faults.append(f"--quant-against: {end.not_compared}")
    failed = end.failed or bool(faults) or any(each.exit_code for each in end.comparisons)
    links = ci_links(os.environ)
    text = run_comment(
        end.run, end.records, failed=failed, broken=end.broken, compared=end.comparisons, faults=faults, links=links
    )
    if settings.markdown_file is not None:
        end.faults += write_output("--quant-markdown", settings.markdown_file, text.encode())
    if summary:
        end.warnings += _append(Path(summary), text)


def _append(file: Path, text: str) -> list[str]:
    """Add `text` to the summary of the step, which others write to as well. Return why that failed, if it did."""
    content = f"{text}\n".encode()
    try:
        size = file.stat().st_size if file.exists() else 0
        if size + len(content) > MAX_SUMMARY_BYTES:
            return [f"{SUMMARY_VARIABLE} is full: {size} of {MAX_SUMMARY_BYTES} bytes; this run is not in it"]
        with file.open("ab") as stream:
            stream.write(content)
    except OSError as error:
        return [f"{SUMMARY_VARIABLE}: {file} cannot be written: {error.strerror or error}; empty it to do without"]
    return []
