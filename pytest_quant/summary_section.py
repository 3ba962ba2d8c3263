"""The section ``quant`` at the end of pytest's output."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from pytest_quant.report import clean, summary, table
from pytest_quant.run_end import Ended
from pytest_quant.settings import settings_of


def show(
    config: pytest.Config, ended: Ended, reporter: pytest.TerminalReporter, expected: Collection[str] = ()
) -> None:
    """Print the table of all checks, what deserves a line of its own, and in red what went wrong.

    `expected` are the node ids of tests that failed as they were expected to.
    """
    if ended.records or ended.warnings or ended.faults:
        reporter.write_sep("=", "quant")
    if ended.records:
        terminal = config.get_terminal_writer()
        columns = settings_of(config).columns
        width, color = terminal.fullwidth, terminal.hasmarkup
        picks = "--quant-columns"
        reporter.write_line(table(ended.records, width, columns or None, color, expected=expected, picks=picks))
        told = summary(ended.records, expected)
        if told:
            reporter.write_line(told)
    if ended.compared is not None and ended.compared.comparison is not None:
        # Here, because runs that compare nothing should not load it.
        from pytest_quant.report.comparison import comparison_text

        terminal = config.get_terminal_writer()
        reporter.write_sep("-", "quant compare")
        reporter.write_line(clean(ended.compared.base))
        reporter.write_line(comparison_text(ended.compared.comparison, terminal.fullwidth, terminal.hasmarkup))
    for line in (*ended.warnings, *ended.faults):
        reporter.write_line(line, red=True)
