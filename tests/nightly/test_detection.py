"""The harness behind ``python -m tests.benchmarks.detection``: it counts, goes on where it was cut, and prints."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import psutil
import pytest
from statsmodels.stats.proportion import proportion_confint

from tests.benchmarks.detection.__main__ import FAMILIES, arguments
from tests.benchmarks.detection.arms import Arm, seed_of, work
from tests.benchmarks.detection.bursts import bursts
from tests.benchmarks.detection.ledger import Ledger
from tests.benchmarks.detection.models import feeds_of, model_file
from tests.benchmarks.detection.peers import asv_worse, benchstat_worse, regressed
from tests.benchmarks.detection.rates import Rate
from tests.benchmarks.detection.table import Row, markdown, renew

ROOT = Path(__file__).parents[2]


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
def test_each_family_has_arms_with_names_of_their_own_and_rows_without_a_trial(family: str, tmp_path: Path) -> None:
    """No row of a ledger without trials says that it is reached."""
    keys = [arm.key for arm in FAMILIES[family].arms(tmp_path)]
    assert len(set(keys)) == len(keys) > 0
    rows = FAMILIES[family].rows(Ledger(None))
    assert rows
    assert all(row.reached is None for row in rows)


def test_rows_that_are_not_there_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With the names of those that are."""
    with pytest.raises(SystemExit):
        arguments(["--rows", "baseline,nothing"])
    assert "no rows nothing; there are launch, " in capsys.readouterr().err


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_load_ends_with_its_block_and_with_what_made_it() -> None:
    """Also when the block raises, and when the process that made it is killed."""
    burning: list[int] = []

    def fall() -> None:
        with bursts(1, 2) as pids:
            burning.extend(pids)
            assert [_alive(pid) for pid in pids] == [True, True]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fall()
    assert [_alive(pid) for pid in burning] == [False, False]
    program = (
        "import os; from tests.benchmarks.detection.bursts import bursts\n"
        "with bursts(1, 1) as burning: print(burning[0], flush=True); os.kill(os.getpid(), 9)"
    )
    made = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(made.stdout)).wait(60)


_QUIET = [1e-3 * (1.0 + 0.01 * math.sin(7.0 * number)) for number in range(1000)]


@pytest.mark.parametrize(("factor", "worse"), [(1.0, False), (1.04, False), (1.07, True), (0.9, False)])
def test_asv_marks_what_is_worse_by_more_than_its_factor(factor: float, worse: bool) -> None:
    """The decision is asv's own; a change for the better is none for the worse."""
    assert asv_worse(_QUIET, [factor * one for one in _QUIET], 1.05) is worse


@pytest.mark.parametrize(("factor", "worse"), [(1.0, False), (1.02, True), (0.98, False)])
def test_benchstat_shows_any_significant_change(factor: float, worse: bool) -> None:
    """Ten means a side that do not overlap have p = 2 / C(20, 10) = 1e-5, however small the change."""
    assert benchstat_worse(_QUIET, [factor * one for one in _QUIET]) is worse


def test_what_pytest_benchmark_prints_is_read() -> None:
    """A line for each model and field, as its version 5.3 prints them."""
    line = "\ttest_model[magika] (0001_base) - Field '{}' has failed PercentageRegressionCheck: 85.08 > 5.00\n"
    assert regressed(line.format("median") + line.format("mean")) == {("magika", "median"), ("magika", "mean")}
    assert regressed("3 passed in 1.00s") == set()


def test_more_work_is_more_of_the_same(tmp_path: Path) -> None:
    """Twenty layers are 21 at +5 %; Magika answers the same with a part of its convolution once more."""
    for name, kind in (("products", "MatMul"), ("convolutions", "Conv")):
        layers = [onnx.load(model_file(tmp_path, name, pct)).graph.node for pct in (0.0, 5.0, 10.0)]
        assert [[node.op_type for node in of_one] for of_one in layers] == [[kind] * n for n in (20, 21, 22)]
    feeds = feeds_of("magika")
    files = [model_file(tmp_path, "magika", pct) for pct in (0.0, 5.0)]
    one, other = (onnxruntime.InferenceSession(str(file)).run(None, feeds)[0] for file in files)
    assert np.allclose(one, other, atol=1e-6)
    convolutions = [node for node in onnx.load(files[1]).graph.node if node.op_type == "Conv"]
    assert convolutions[0].input[1] == convolutions[1].input[1]
