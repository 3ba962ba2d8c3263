"""The run for a pull request: a file of Markdown, and the summary of a step of GitHub Actions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_quant.plugin.settings import settings_of
from pytest_quant.whole_file import next_step, write_whole

if TYPE_CHECKING:
    from pytest_quant.plugin.controller import Reported
    from pytest_quant.plugin.finish import Ended
    from pytest_quant.record import Run
    from pytest_quant.report.run_markdown import Beside

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""Environment variable of GitHub Actions that names the file of the step's summary."""

MAX_SUMMARY_BYTES = 1024 * 1024
"""GitHub shows none of a summary that is larger."""


def tell_pull_request(config: pytest.Config, run: Run | None, ended: Ended, reported: Reported) -> Ended:
    """Write the run as Markdown where that is asked for, and return the end with what went wrong.

    Parameters
    ----------
    config : of the controlling process.
    run : ``None`` where there was no check.
    ended : the end of the run, which has come to all else.
    reported : the outcomes of its tests.
    """
    if config.getoption("quant_leave"):
        # The run of another commit, for --quant-against, is no run of this pull request.
        return ended
    settings = settings_of(config)
    summary = os.environ.get(SUMMARY_VARIABLE) if settings.for_github and ended.records else None
    warnings: list[str] = []
    faults: list[str] = []
    if settings.markdown_file is not None or summary:
        text = _markdown(config, run, ended, reported)
        if settings.markdown_file is not None:
            faults += _write(settings.markdown_file, text)
        if summary:
            warnings += _append(Path(summary), text)
    return replace(ended, warnings=(*ended.warnings, *warnings), faults=(*ended.faults, *faults))


def _markdown(config: pytest.Config, run: Run | None, ended: Ended, reported: Reported) -> str:
    # Here, because only a run that writes Markdown should import it, and the comparisons with it.
    from pytest_quant.plugin.against import NOT_COMPARED
    from pytest_quant.report.run_markdown import Outcomes, run_markdown

    beside = list(_beside(config, ended))
    compared = ended.compared
    # That rows regressed is in the verdict; that tests are gone is told with what to do.
    told = compared.fault if compared and compared.ruling and not compared.ruling.missing else None
    faults = [fault for fault in ended.faults if fault != told]
    if NOT_COMPARED in config.stash:
        faults.append(f"--quant-against: {config.stash[NOT_COMPARED]}")
    failed = reported.failed or bool(faults) or bool(told) or any(one.ruling.code for one in beside)
    outcomes = Outcomes(failed, frozenset(reported.broken), reported.expected)
    return run_markdown(run, ended.records, outcomes, beside, faults)


def _beside(config: pytest.Config, ended: Ended) -> Iterator[Beside]:
    from pytest_quant.plugin.against import AGAINST
    from pytest_quant.report.run_markdown import Beside

    compared, against = ended.compared, config.stash.get(AGAINST, None)
    if compared is not None and compared.comparison is not None and compared.ruling is not None:
        yield Beside(compared.base, compared.comparison, compared.ruling)
    if against is not None:
        yield Beside(f"timed beside it: {against.base}", against.comparison, against.ruling)


def _write(file: Path, text: str) -> list[str]:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text.encode())
    except OSError as error:
        step = next_step(error, "name a file in a writable folder")
        return [f"--quant-markdown: {file} cannot be written: {error.strerror or error}; next: {step}"]
    return []


def _append(file: Path, text: str) -> list[str]:
    """Add `text` to the summary of the step, which others write to as well."""
    content = f"{text}\n".encode()
    try:
        there = file.stat().st_size if file.exists() else 0
        if there + len(content) > MAX_SUMMARY_BYTES:
            return [f"{SUMMARY_VARIABLE} is full: {there} of {MAX_SUMMARY_BYTES} bytes; this run is not in it"]
        with file.open("ab") as stream:
            stream.write(content)
    except OSError as error:
        why = error.strerror or error
        return [f"{SUMMARY_VARIABLE}: {file} cannot be written: {why}; to do without: --quant-no-github"]
    return []
