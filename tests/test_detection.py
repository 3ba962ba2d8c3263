"""The harness behind ``python -m tests.benchmarks.detection``: it counts, goes on where it was cut, and prints."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path

import pytest
from statsmodels.stats.proportion import proportion_confint

from tests.benchmarks.detection.__main__ import FAMILIES, arguments
from tests.benchmarks.detection.arms import Arm, seed_of, work
from tests.benchmarks.detection.ledger import Ledger
from tests.benchmarks.detection.rates import Rate
from tests.benchmarks.detection.table import Row, markdown, renew


@pytest.mark.parametrize(("hits", "n"), [(0, 200), (3, 40), (40, 40)])
def test_a_rate_has_the_exact_interval(hits: int, n: int) -> None:
    """As statsmodels has it, from quantiles of beta."""
    low, high = proportion_confint(hits, n, alpha=0.05, method="beta")
    assert Rate(hits, n).interval_pct == pytest.approx((100.0 * low, 100.0 * high), abs=1e-9)
    assert str(Rate(0, 0)) == "not run"


def _never(text: str) -> None:
    raise AssertionError(text)


def test_a_run_that_was_cut_goes_on_where_it_was(tmp_path: Path) -> None:
    """Each trial is made once, with the seed that it has in a run that is not cut; a half line is made again."""
    made: list[int] = []

    def trial(seed: int) -> dict[str, object]:
        made.append(seed)
        return {"n": 1}

    arms, file = [Arm("one", 3, trial), Arm("two", 2, trial)], tmp_path / "found.jsonl"
    assert not work(arms, Ledger(file), 7, 2.5, _never, clock=itertools.count().__next__)
    assert 0 < len(made) < 5
    with file.open("a", encoding="utf-8") as cut:
        cut.write('{"arm": "one", "num')
    assert work(arms, Ledger(file), 7, 1e9, _never)
    assert sorted(made) == sorted(seed_of(7, arm, number) for arm in arms for number in range(arm.wanted))
    ledger = Ledger(file)
    assert [len(ledger.trials(arm.key)) for arm in arms] == [3, 2]
    assert work(arms, ledger, 7, 1e9, _never)
    assert len(made) == 5


def test_arms_are_done_in_turn(tmp_path: Path) -> None:
    """The one that is furthest behind is next, so that all see the same minutes."""
    order: list[str] = []

    def trial(key: str, seed: int) -> dict[str, object]:
        order.append(key)
        return {}

    arms = [Arm(key, wanted, partial(trial, key)) for key, wanted in (("a", 2), ("b", 4))]
    work(arms, Ledger(tmp_path / "found.jsonl"), 0, 1e9, _never)
    assert order == ["a", "b", "b", "a", "b", "b"]


def test_the_readme_keeps_the_rows_of_other_families(tmp_path: Path) -> None:
    """A family's table replaces its older one, in its place."""
    readme = tmp_path / "README.md"
    readme.write_text("# Head\n")
    for family, got in (("one", "1 %"), ("two", "2 %"), ("one", "3 %")):
        renew(readme, family, f"told of {family}", [Row("figure", "<= 5 %", got, reached=True)])
    text = readme.read_text()
    assert text.startswith("# Head\n\n## one\n")
    assert [text.count(got) for got in ("1 %", "2 %", "3 %")] == [0, 1, 1]
    assert text.index("3 %") < text.index("2 %")


def test_a_figure_that_is_not_reached_is_printed_as_it_is() -> None:
    """And one that was not run is no success."""
    rows = [Row("a|b", "must", "got", reached) for reached in (True, False, None)]
    lines = markdown(rows).splitlines()[2:]
    assert [line.split(" | ")[3] for line in lines] == ["yes", "NO", "-"]
    assert lines[0].startswith("| a\\|b |")


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_has_arms_with_names_of_their_own_and_rows_without_a_trial(family: str) -> None:
    """No row of a ledger without trials says that it is reached."""
    keys = [arm.key for arm in FAMILIES[family].arms()]
    assert len(set(keys)) == len(keys) > 0
    rows = FAMILIES[family].rows(Ledger(None))
    assert rows
    assert all(row.reached is None for row in rows)


def test_rows_that_are_not_there_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With the names of those that are."""
    with pytest.raises(SystemExit):
        arguments(["--rows", "baseline,nothing"])
    assert "no rows nothing; there are baseline" in capsys.readouterr().err
