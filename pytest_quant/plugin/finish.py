"""The end of a run: records go once to the history and the JSON file, and the section ``quant`` is printed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_quant.backends import backend_names
from pytest_quant.errors import HistoryError, nearest
from pytest_quant.history import INSTALL, missing_libraries, open_store, set_aside
from pytest_quant.marks.marked import ENCODED
from pytest_quant.plugin.controller import Reported, takes_all
from pytest_quant.plugin.hooks import send_records
from pytest_quant.plugin.pull_request import tell_pull_request
from pytest_quant.plugin.settings import settings_of
from pytest_quant.plugin.unfinished import run_in_progress
from pytest_quant.printable import clean, clean_lines, guard_lines
from pytest_quant.record import Encoded, Json, Record, Run, from_json, run_to_json
from pytest_quant.record.run import gather_samples
from pytest_quant.report.summary import summary
from pytest_quant.whole_file import next_step, write_whole

if TYPE_CHECKING:
    from pytest_quant.plugin.compare_with_base import Compared


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a run.

    Attributes
    ----------
    warnings : problems that do not change the exit code.
    faults : problems that make the run fail.
    compared : with ``--quant-compare``, when there are records; else ``None``.
    notes : what the user should know beside the checks.
    """

    records: tuple[Record, ...]
    warnings: tuple[str, ...]
    faults: tuple[str, ...]
    compared: Compared | None = None
    notes: tuple[str, ...] = ()


def end_run(
    config: pytest.Config,
    collected: Sequence[dict[str, Json]],
    reported: Reported,
    *,
    check_required: bool,
    whole: bool = True,
) -> Ended:
    """Write the records to the JSON file, the history and the page, once; when one fails the others are still written.

    Parameters
    ----------
    config : of the controlling process.
    collected : encoded records, in the order of the tests.
    reported : what pytest reported about the tests.
    check_required : the tests ended by themselves: report required backends that are unknown and, after a whole run of
        every test, those that no test used.
    whole : pytest ran all tests that it collected.
    """
    settings = settings_of(config)
    here = config.stash.get(ENCODED, {})
    encoded = tuple(here.get(id(data)) or Encoded(from_json(data), data) for data in collected)
    warnings: list[str] = []
    faults: list[str] = []
    notes: tuple[str, ...] = ()
    compared: Compared | None = None
    run: Run | None = None
    if encoded or settings.json_file is not None or settings.html_file is not None:
        begun = run_in_progress(config)
        run, encoded = gather_samples(begun.run, encoded)
        if settings.json_file is not None:
            faults += _write_document(settings.json_file, run, encoded)
        if encoded and settings.history is not None:
            messages, stored = _append(settings.history, run, encoded)
            warnings += messages
            begun.end(stored=stored)
        notes = tuple(begun.notes)
        warnings += begun.warnings
        warnings += send_records(config, run, [one.record for one in encoded])
        if encoded and settings.compare:
            compared = _compare(config, run, [one.record for one in encoded], whole=whole)
            faults += [compared.fault] if compared.fault else []
        if settings.html_file is not None:
            faults += _write_page(config, run, [one.record for one in encoded], compared, reported.expected)
    records = tuple(one.record for one in encoded)
    if check_required:
        references = {record.reference.removesuffix("-fp32") for record in records}
        used = references | {record.backend for record in records}
        faults += faults_of_required(settings.require, used, all_ran=whole and takes_all(config))
    ended = Ended(records, tuple(warnings), tuple(faults), compared, notes)
    return tell_pull_request(config, run, ended, reported)


def _compare(config: pytest.Config, run: Run, records: Sequence[Record], *, whole: bool) -> Compared:
    # Here, because only runs that compare should import the comparison.
    from pytest_quant.plugin.compare_with_base import compare_run

    return compare_run(config, settings_of(config), run, records, whole=whole)


def _write_page(
    config: pytest.Config, run: Run, records: Sequence[Record], compared: Compared | None, expected: Collection[str]
) -> list[str]:
    # Here, because only runs that ask for a page should import what makes one.
    from pytest_quant.plugin.html_page import write_html

    return write_html(config, run, records, compared=compared, expected=expected)


def _write_document(file: Path, run: Run, records: Sequence[Encoded]) -> list[str]:
    text = json.dumps(run_to_json(run, records), indent=1, allow_nan=False)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, (text + "\n").encode())
    except OSError as error:
        step = next_step(error, "name a file in a writable folder")
        return [f"--quant-json: {file} cannot be written: {error.strerror or error}; next: {step}"]
    return []


def _append(place: str, run: Run, records: Sequence[Encoded]) -> tuple[list[str], bool]:
    """Add the records to the history, or write them to a file of their own where that fails.

    Without the libraries of the history there is nothing that a file could be imported into, so none is written.

    Returns
    -------
    Warnings, and whether the records are in either.
    """
    missing = missing_libraries()
    if missing:
        return [f"no history is written: {missing}; to keep one: {INSTALL}; to do without: --quant-no-history"], False
    try:
        open_store(place).append(run, records)
    except HistoryError as error:
        messages = [str(error)]
        try:
            file = set_aside(place, run, records)
        except HistoryError as second:
            return [*messages, str(second)], False
        words = f"{shlex.quote(str(file))}{_history_option(place)}"
        messages.append(f"the records were set aside; add them with: pytest-quant import {words}")
        return messages, True
    return [], True


def faults_of_required(required: Collection[str], used: Collection[str], *, all_ran: bool) -> list[str]:
    """Return a message for every required backend that is not registered, or that no check used.

    Parameters
    ----------
    required : names of backends.
    used : backends of the checks of this run.
    all_ran : every test of the suite ran; otherwise unused backends are not reported, since tests that were left out
        may use them.
    """
    registered = backend_names()
    unknown = [name for name in required if name not in registered]
    unused = [name for name in required if name in registered and name not in used] if all_ran else []
    return [
        *(f"--quant-require: unknown backend '{name}'; {nearest(name, registered)}" for name in unknown),
        *(f"--quant-require: no test used '{name}'" for name in unused),
    ]


def _history_option(place: str) -> str:
    """Return the option that names a server to ``pytest-quant import``, without its password; empty for a file."""
    if "://" not in place:
        return ""
    # Here, because it loads the database libraries, which a run without a history does not need.
    from pytest_quant.history.connect import shown_place

    return f" --history {shlex.quote(shown_place(place))}"


def show(
    config: pytest.Config, ended: Ended, reporter: pytest.TerminalReporter, expected: Collection[str] = ()
) -> None:
    """Print the table of all checks with their summary, the comparison, and in red warnings and faults.

    Parameters
    ----------
    config : of the controlling process.
    ended : result of the run.
    reporter : pytest's terminal.
    expected : node ids of tests that failed as expected (xfail).
    """
    if ended.records or ended.notes or ended.warnings or ended.faults:
        reporter.write_sep("=", "quant")
    if ended.records:
        # Here, because a run without a check has no table, and needs no rich.
        from pytest_quant.report.summary import table

        terminal = config.get_terminal_writer()
        columns = settings_of(config).columns
        width, color = terminal.fullwidth, terminal.hasmarkup
        picks = "--quant-columns"
        found = table(ended.records, width, columns or None, color, expected=expected, picks=picks)
        reporter.write_line(guard_lines(found))
        text = summary(ended.records, expected)
        if text:
            reporter.write_line(guard_lines(text))
    compared = ended.compared
    if compared is not None and compared.comparison is not None and compared.ruling is not None:
        # Here, because only runs that compare should import it.
        from pytest_quant.report.comparison_text import comparison_text

        terminal = config.get_terminal_writer()
        reporter.write_sep("-", "quant compare")
        reporter.write_line(clean(compared.base))
        told = comparison_text(compared.comparison, compared.ruling, terminal.fullwidth, terminal.hasmarkup)
        reporter.write_line(guard_lines(told))
    for line in ended.notes:
        reporter.write_line(clean_lines(line))
    for line in (*ended.warnings, *ended.faults):
        reporter.write_line(clean_lines(line), red=True)
