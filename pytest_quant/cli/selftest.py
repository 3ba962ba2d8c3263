"""``pytest-quant selftest``."""

from __future__ import annotations

import click

from pytest_quant.cli.common import history_option, history_place, say, show, show_json
from pytest_quant.environment import fingerprint
from pytest_quant.errors import HistoryError
from pytest_quant.history.selftests import keep_selftest
from pytest_quant.measure.selftest import QUICK, WHOLE, run_selftest
from pytest_quant.measure.steps import Steps
from pytest_quant.record.codec import plain
from pytest_quant.report.selftest import selftest_page


@click.command()
@click.option("--quick", is_flag=True, help="Ten launches in place of twenty, and two minutes at most.")
@click.option("--backend", metavar="NAME", help="Time models of this backend, a GPU's for one  [one on the processor]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with every draw of the noise.")
@history_option
def selftest(quick: bool, backend: str | None, as_json: bool, place: str | None) -> None:
    """Time models of its own in fresh processes (launches), and print which limits on speed this machine holds.

    The result is kept in the history by the identity of the machine, and the newest one counts: checks on machines like
    it allow for its noise. Ctrl-C keeps what was measured. Run it while nothing else runs, or as busy as the machine is
    when it runs tests.

    \b
    Examples:
      pytest-quant selftest --quick
      pytest-quant selftest --history postgresql://ci@db/quant     for all runners of its kind
    """  # noqa: D301 - click reads a backspace
    result = run_selftest(
        QUICK if quick else WHOLE,
        fingerprint().identity,
        steps=Steps(lambda text: say(text, err=True)),
        backend=backend,
    )
    if as_json:
        show_json(plain(result, "self-test"))
    else:
        show(selftest_page(result))
    where = history_place(place)
    try:
        keep_selftest(where, result)
    except HistoryError as error:
        raise HistoryError(
            f"the self-test is not kept: {error.what}", value=error.value, allowed=error.allowed, fix=error.fix
        ) from error
