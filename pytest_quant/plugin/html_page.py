"""``--quant-html FILE``: a page about the run, with what the history knows of its series."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_quant.errors import HistoryError
from pytest_quant.history import StoredCheck, missing_libraries, open_store
from pytest_quant.history.baselines.file import NAME, read_baselines
from pytest_quant.history.series_history import SeriesHistory, series_histories
from pytest_quant.plugin.against import AGAINST, NOT_COMPARED
from pytest_quant.plugin.settings import settings_of
from pytest_quant.record import Record, Run
from pytest_quant.report.page.assemble import Sources, assemble
from pytest_quant.report.page.compared import ComparedRuns
from pytest_quant.report.page.render import write_page
from pytest_quant.whole_file import next_step

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_quant.plugin.compare_with_base import Compared

_TO_COMPARE = "pytest --quant-compare --quant-html FILE"


def write_html(
    config: pytest.Config,
    run: Run,
    records: Sequence[Record],
    *,
    compared: Compared | None,
    expected: Collection[str],
) -> list[str]:
    """Write the page to the file that ``--quant-html`` names, and return why it could not be written, if so.

    Parameters
    ----------
    config : of the controlling process.
    run : the run.
    records : of all its checks.
    compared : by ``--quant-compare``; ``None`` where the run was not compared so.
    expected : node ids of tests that failed as they were expected to.
    """
    settings = settings_of(config)
    file = settings.html_file
    # The run of another commit, for --quant-against, has no page of its own.
    if file is None or config.getoption("quant_leave"):
        return []
    history, why_not = _history(settings.history, config.rootpath, [record.series for record in records])
    made = _made(config, compared)
    sources = Sources(
        checks=tuple(StoredCheck(run, record) for record in records),
        runs=(run,),
        expected=expected,
        compared=made,
        why_not_compared="" if made else _why_not_compared(config, compared),
        next_step="" if compared or settings.against is not None else _TO_COMPARE,
        history=history,
        why_no_history=why_not,
    )
    try:
        write_page(assemble(sources), file)
    except OSError as error:
        step = next_step(error, "name a file in a writable folder")
        return [f"--quant-html: {file} cannot be written: {error.strerror or error}; next: {step}"]
    except HistoryError as error:
        return [f"--quant-html: {error}"]
    return []


def _made(config: pytest.Config, compared: Compared | None) -> ComparedRuns | None:
    """Return the comparison to show: timed beside the base where that was asked for, which has less noise."""
    against = config.stash.get(AGAINST, None)
    if against is not None:
        return ComparedRuns(against.comparison, against.ruling, (f"timed beside it: {against.base}",))
    if compared is None or compared.comparison is None or compared.ruling is None:
        return None
    return ComparedRuns(compared.comparison, compared.ruling, (compared.base,))


def _why_not_compared(config: pytest.Config, compared: Compared | None) -> str:
    if NOT_COMPARED in config.stash:
        return f"--quant-against: {config.stash[NOT_COMPARED]}"
    return "This run was not compared with another commit." if compared is None else compared.fault


def _history(place: str | None, root: Path, keys: Sequence[str]) -> tuple[list[SeriesHistory], str]:
    """Return the history of the series, or why there is none."""
    if place is None:
        return [], "The history is turned off."
    missing = missing_libraries()
    if missing:
        return [], f"There is no history: {missing}."
    try:
        history = series_histories(open_store(place), keys, read_baselines(root / NAME))
    except HistoryError as error:
        return [], f"The history cannot be read: {error}"
    return history, "The history has no series of this run yet."
