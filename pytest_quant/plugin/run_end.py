"""From the first finished check to the end of a run: its records are kept, stored, compared, written and printed."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy
import pytest

from pytest_quant.backends import backend_names, nearest_backend
from pytest_quant.environment.revision import git_trouble
from pytest_quant.errors import HistoryError, QuantError, UsageError
from pytest_quant.history import INSTALL, missing_libraries, open_store
from pytest_quant.history.unfinished_runs import UnfinishedRun, recover
from pytest_quant.host import quote
from pytest_quant.marks import ENCODED
from pytest_quant.plugin.run_files import RunEnd, end_of, write_markdown, write_output, write_page
from pytest_quant.plugin.settings import HISTORY_VARIABLE, settings_of, shard_of
from pytest_quant.printable import HIDDEN, clean, clean_lines, guard_lines, redact_address
from pytest_quant.record import EncodedRecord, Json, Record, Run, from_json, run_to_json, start_run
from pytest_quant.report.summary import summary, table

if TYPE_CHECKING:
    from pytest_quant.history.compare.comparison import Comparison, Row


def begin(config: pytest.Config) -> Run:
    """Return the run of this process, which begins with the first call."""
    end = end_of(config)
    if end.run is None:
        end.run = start_run(config.rootpath, shard_of(config))
        if not end.run.parents and (trouble := git_trouble(config.rootpath)):
            end.warnings.append(trouble)
    return end.run


def journal_check(config: pytest.Config, record: dict[str, Json]) -> None:
    """Put the JSON of a finished check on the disk; if that fails, the run goes on and says so at its end.

    With the first one, what dead runs left is added to the history.
    """
    end = end_of(config)
    try:
        if end.run is None:
            run, place = begin(config), settings_of(config).history
            if place is not None and not missing_libraries():
                added, refused = recover(place, config.rootpath)
                end.notes += [added] if added else []
                end.warnings += refused
                end.journal = UnfinishedRun(place, config.rootpath, replace(run, partial=True))
        if end.journal is not None:
            end.journal.keep(record)
    except (OSError, NotImplementedError) as error:
        why = getattr(error, "strerror", None) or error
        end.warnings.append(f"finished checks could not be kept on the disk while other tests ran: {why}")
        end.close_journal(stored=False)


def end_run(
    config: pytest.Config,
    collected: Sequence[dict[str, Json]],
    lacking: Mapping[str, Any],
    *,
    ended_by_tests: bool,
    all_ran: bool,
) -> None:
    """Write the records to the JSON file, the history, the page and the Markdown, and compare them.

    When one of these fails the others are still done.

    Parameters
    ----------
    config : of the controlling process.
    collected : encoded records, in the order of the tests.
    lacking : fields of `Run` that say which tests have no record.
    ended_by_tests : the tests ended by themselves: required backends that are unknown are faults and, if `all_ran`,
        those that no test used.
    all_ran : every test of the suite ran.
    """
    settings, end = settings_of(config), end_of(config)
    # Runs of other commits, for --quant-against, are no runs of the user's.
    is_own = not config.getoption("quant_leave")
    encoded = decode_records(config, collected)
    end.records = tuple(each.record for each in encoded)
    compares = settings.compare and (encoded or lacking["skipped"] or lacking["uncollected"])
    if encoded or compares or settings.json_file is not None or settings.html_file is not None:
        run = end.run = replace(begin(config), **lacking)
        if settings.json_file is not None:
            text = json.dumps(run_to_json(run, encoded), indent=1, allow_nan=False)
            end.faults += write_output("--quant-json", settings.json_file, f"{text}\n".encode())
        if encoded and settings.history is not None:
            messages = _append(settings.history, end.journal, run, encoded)
            # What is kept nowhere is lost with the output of this run.
            is_lost = end.journal is None and settings.json_file is None and not missing_libraries()
            (end.faults if is_lost else end.warnings).extend(messages)
            end.close_journal(stored=not messages)
        if is_own:
            end.warnings += send_records(config, run, end.records)
        if compares:
            _compare(config, end, run, all_ran=all_ran)
    if ended_by_tests:
        references = {record.reference.removesuffix("-fp32") for record in end.records}
        used = references | {record.backend for record in end.records}
        end.faults += faults_of_required(settings.require, used, all_ran=all_ran)
    if is_own:
        write_page(config, end)
        write_markdown(config, end)


_RAISED = (Exception, SystemExit, pytest.exit.Exception, pytest.fail.Exception, pytest.skip.Exception)
"""What other people's code may end with, that of its libraries included; only Ctrl-C ends the run."""


def send_records(config: pytest.Config, run: Run, records: Sequence[Record]) -> list[str]:
    """Call `pytest_quant_record` for each record, and return a warning for each way in which it failed.

    Parameters
    ----------
    config : of the controlling process.
    run : that the records are of.
    records : in the order of the tests.
    """
    called = config.hook.pytest_quant_record
    if not called.get_hookimpls():
        return []
    failed: dict[str, list[str]] = {}
    for record in records:
        try:
            called(record=record, run=run, config=config)
        except _RAISED as error:
            failed.setdefault(_describe_error(error, config.rootpath), []).append(record.nodeid)
    return [
        f"pytest_quant_record failed for {tests[0]}{f' and {len(tests) - 1} more' if tests[1:] else ''}: {why}; the "
        "records are kept"
        for why, tests in failed.items()
    ]


def _describe_error(error: BaseException, root: Path) -> str:
    """Return what was raised, and where in the code that implements the hook."""
    callers = (Path(__file__).parent, Path(pluggy.__file__).parent)
    for frame in traceback.extract_tb(error.__traceback__):
        if not any(map(Path(frame.filename).is_relative_to, callers)):
            return f"{type(error).__name__}: {error} ({os.path.relpath(frame.filename, root)}:{frame.lineno})"
    return f"{type(error).__name__}: {error}"


def decode_records(config: pytest.Config, collected: Sequence[dict[str, Json]]) -> tuple[EncodedRecord, ...]:
    """Return encoded records; those that this process made are not decoded again."""
    of_this_process = config.stash.get(ENCODED, {})
    return tuple(of_this_process.get(id(data)) or EncodedRecord(from_json(data), data) for data in collected)


def _compare(config: pytest.Config, end: RunEnd, run: Run, *, all_ran: bool) -> None:
    # Here, because only runs that compare should import the comparison.
    from pytest_quant.history.commits import compare_run
    from pytest_quant.report.comparison_text import fault

    settings, root = settings_of(config), config.rootpath
    try:
        if settings.history is None:
            raise UsageError("the history is turned off, so there is nothing to compare with")
        store = open_store(settings.history, root)
        base, strict = settings.compare_base, settings.strict
        end.compared = compare_run(store, root, run, end.records, base, strict=strict, all_ran=all_ran)
        why = fault(end.compared)
    except QuantError as error:
        why = str(error)
    end.regression = f"--quant-compare: {why}" if why else ""


def _append(place: str, journal: UnfinishedRun | None, run: Run, records: Sequence[EncodedRecord]) -> list[str]:
    """Add the records to the history; if that fails, return warnings, and the file of the run keeps the records."""
    missing = missing_libraries()
    if missing:
        return [f"no history is written: {missing}; to keep one: {INSTALL}; to do without: --quant-no-history"]
    try:
        open_store(place).append(run, records)
    except HistoryError as error:
        if journal is None:
            return [
                str(error),
                "the records of this run are in no history; --quant-json=FILE on another disk keeps them",
            ]
        command, when = f"pytest-quant history import {quote(str(journal.file))}", "now"
        if "://" in place and os.environ.get(HISTORY_VARIABLE) != place:
            # A password is in no output.
            if HIDDEN in (shown := redact_address(place)):
                when = f"now, with the history's address and password in {HISTORY_VARIABLE}"
            else:
                command += f" --history {quote(shown)}"
        return [str(error), f"the next run adds the records of this one, or {when}: {command}"]
    return []


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
        *(f"--quant-require: unknown backend '{name}'; {nearest_backend(name)}" for name in unknown),
        *(f"--quant-require: no test used '{name}'" for name in unused),
    ]


def show(config: pytest.Config, reporter: pytest.TerminalReporter) -> None:
    """Print the table of all checks with their summary, the comparison, and in red warnings and faults."""
    end = end_of(config)
    red = [*end.warnings, *([end.regression] if end.regression else []), *end.faults]
    if end.records or end.notes or red:
        reporter.write_sep("=", "quant")
    terminal = config.get_terminal_writer()
    if end.records:
        columns, width = settings_of(config).columns or None, terminal.fullwidth
        text = table(end.records, width, columns, terminal.hasmarkup, broken=end.broken, picks="--quant-columns")
        # One by one: what a terminal cannot show is escaped line by line.
        for line in guard_lines(f"{text}\n{summary(end.records, end.broken)}").splitlines():
            reporter.write_line(line)
    if end.compared is not None:
        reporter.write_sep("-", "quant compare")
        print_comparison(config, end.compared, None, reporter)
    for line in [*end.notes, *([] if end.traffic is None else [str(end.traffic)])]:
        reporter.write_line(clean_lines(line))
    for line in red:
        reporter.write_line(clean_lines(line), red=True)


def print_comparison(
    config: pytest.Config, compared: Comparison, rows: Sequence[Row] | None, reporter: pytest.TerminalReporter
) -> None:
    """Print a comparison: the line that names its base, its verdict, and the given rows or those that changed."""
    # Here, because only runs that compare should import it.
    from pytest_quant.report.comparison_text import comparison_text

    terminal = config.get_terminal_writer()
    width, color = terminal.fullwidth, terminal.hasmarkup
    reporter.write_line(clean(compared.about[0]))
    for line in guard_lines(comparison_text(compared, width, color, rows=rows)).splitlines():
        reporter.write_line(line)
