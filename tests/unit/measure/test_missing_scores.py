"""A PASS holds whatever the candidate would have scored in samples that it lacks; a FAIL and a count need no bound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.record import build_record
from pytest_quant.report.pull_request import run_comment
from pytest_quant.report.summary import summary
from pytest_quant.result import Measured, Status
from pytest_quant.spec import Scores, limits_on
from pytest_quant.verdict import worst
from tests.unit.data.test_score_pairs import sample, samples, write_lines
from tests.unit.measure.test_scored import base, measured, statuses
from tests.unit.record.examples import verdicts_on

N, LOST = 1000, 10
RIGHT = np.random.default_rng(2).random(N) < 0.9
UNANSWERED = set(np.flatnonzero(RIGHT)[:LOST].tolist())
"""Questions that the reference answers rightly; with ten wrong answers the drop is one point of a hundred."""

Missing = Literal["exclude", "worst"]


def of_files(folder: Path, *, deterministic: bool = True, missing: Missing = "exclude") -> Scores:
    """The candidate's file lacks ten rows."""
    rows = [{"id": str(place), "score": float(right)} for place, right in enumerate(RIGHT)]
    kept = [row for place, row in enumerate(rows) if place not in UNANSWERED]
    paths = write_lines(folder / "fp16.jsonl", rows), write_lines(folder / "int4.jsonl", kept)
    return Scores.from_files(*paths, deterministic=deterministic, missing=missing)


def of_arrays() -> Scores:
    """The candidate's array ends ten samples early."""
    return Scores.from_arrays(np.ones(N), np.ones(N - LOST), deterministic=True)


def of_error_rates() -> Scores:
    """The same as wrong answers, of which fewer are better, in a scale to 100."""
    sides = np.zeros(N), np.zeros(N - LOST)
    return Scores.from_arrays(*sides, better="lower", unit="%", scale=1.0, deterministic=True)


def of_logs(folder: Path, *, of_other_prompts: bool = False, tasks: int = 1) -> Scores:
    """lm-eval's logs of one task or several: the candidate of the first lacks rows, or has other prompts in them."""
    for task in range(tasks):
        rows = [sample(place, int(right)) for place, right in enumerate(RIGHT)]
        samples(folder / "fp16", rows, task=f"t{task}")
        kept = [row for place, row in enumerate(rows) if task or place not in UNANSWERED]
        others = [sample(place, 1, prompt="other") for place in UNANSWERED if of_other_prompts]
        samples(folder / "int4", [*kept, *others], task=f"t{task}")
    return Scores.from_lm_eval(folder / "fp16", folder / "int4", deterministic=True)


MAKERS: dict[str, Callable[[Path], Scores]] = {
    "files": of_files,
    "files that vary": lambda folder: of_files(folder, deterministic=False),
    "arrays": lambda _: of_arrays(),
    "error rates": lambda _: of_error_rates(),
    "logs": of_logs,
    "other prompts": lambda folder: of_logs(folder, of_other_prompts=True),
    "tasks": lambda folder: of_logs(folder, tasks=2),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_limit_that_the_worst_scores_would_break_is_inconclusive(tmp_path: Path, name: str) -> None:
    """A drop of 0 without ten samples, and of one point with them: no PASS at 0.4, and one at 2."""
    scores = MAKERS[name](tmp_path)
    (verdict,) = verdicts_on(measured(scores, max_drop=0.4))
    assert verdict.status is Status.INCONCLUSIVE
    assert f"but samples are missing in the candidate ({LOST}): with its worst score there" in verdict.reason
    assert statuses(measured(scores, max_drop=3.0)) == [Status.PASS]


def test_both_figures_are_in_the_reason(tmp_path: Path) -> None:
    """That of the samples which both have, and that of the worst case; the latter is what ``worst`` judges."""
    (open_verdict,) = verdicts_on(measured(of_files(tmp_path), max_drop=0.5))
    (judged,) = verdicts_on(measured(of_files(tmp_path, missing="worst"), max_drop=0.5))
    assert (judged.status, judged.reason) == (Status.FAIL, "1 pp is above 0.5 pp; lost 10, won 0")
    assert open_verdict.reason.endswith(
        "lost 0, won 0, but samples are missing in the candidate (10): with its worst score there "
        "1 pp is above 0.5 pp; lost 10, won 0; write a row with a score for each"
    )


def test_the_worst_case_has_the_interval_of_its_own_counts(tmp_path: Path) -> None:
    """Ten of a thousand lost: Tango's interval [0.54, 1.83], as a harness that counts them wrong gives it."""
    result = measured(of_files(tmp_path, deterministic=False), max_drop=3.0)
    assert result.accuracy_at_worst is not None
    assert result.accuracy_at_worst.drop_ci is not None
    assert list(result.accuracy_at_worst.drop_ci) == pytest.approx([0.5441, 1.8313], abs=1e-3)
    assert (result.accuracy_at_worst.n, result.accuracy.n) == (N, N - LOST)


@pytest.mark.parametrize(("limit", "allowed"), [("min_ratio", 0.995), ("max_drop_increase", 0.5)])
def test_other_limits_on_the_score_are_bounded_alike(tmp_path: Path, limit: str, allowed: float) -> None:
    """The ratio, and the growth of the drop since the baseline, of 0 then."""
    before = base(None, 0.0)
    result = measured(of_files(tmp_path), before, **{limit: allowed})
    assert statuses(result, before) == [Status.INCONCLUSIVE]
    assert statuses(measured(of_files(tmp_path, missing="worst"), before, **{limit: allowed}), before) == [Status.FAIL]


def test_a_drop_above_the_limit_fails_without_what_is_missing(tmp_path: Path) -> None:
    """A tenth of the samples that both have is lost: what is missing does not make that good."""
    rows = [{"id": str(place), "score": 1.0} for place in range(N)]
    wrong = [row | {"score": 0.0} if place % 10 == 0 else row for place, row in enumerate(rows)]
    paths = write_lines(tmp_path / "fp16.jsonl", rows), write_lines(tmp_path / "int4.jsonl", wrong[:-1])
    assert statuses(measured(Scores.from_files(*paths, deterministic=True), max_drop=2.0)) == [Status.FAIL]


def test_nothing_bounds_scores_without_a_range() -> None:
    """An edit distance may be any: a PASS beside a missing sample is none, whatever is asked for."""
    sides = np.linspace(1.0, 2.0, 200), np.linspace(1.0, 2.0, 200)[:-1]
    for missing in ("exclude", "worst"):
        scores = Scores.from_arrays(
            *sides, better="lower", unit="edits", scale=1.0, deterministic=True, missing=missing
        )
        (verdict,) = verdicts_on(measured(scores, max_drop=5.0))
        assert verdict.status is Status.INCONCLUSIVE
        assert "samples are missing in the candidate (1): nothing bounds what it lost" in verdict.reason


@pytest.mark.parametrize("limit", limits_on("reference"))
def test_a_limit_on_the_reference_alone_needs_no_bound(limit: str) -> None:
    """What the candidate lacks says nothing about the reference's own score."""
    sides = np.linspace(1.0, 2.0, 200), np.linspace(1.0, 2.0, 200)[:-1]
    scores = Scores.from_arrays(*sides, better="lower", unit="edits", scale=1.0, deterministic=True)
    assert statuses(measured(scores, None, **{limit: 5.0})) == [Status.PASS]


def test_a_candidate_alone_that_lacks_a_sample_in_one_run_passes_not_unseen(tmp_path: Path) -> None:
    """Its record has no score for the sample either, so that nothing bounds what was lost."""
    rows = [{"id": str(place), "score": 1.0} for place in range(N)]
    runs = [write_lines(tmp_path / f"{place}.jsonl", rows[place:]) for place in range(2)]
    scores = Scores.from_files(None, runs)
    first = measured(scores, "there is none", max_drop=2.0)
    assert statuses(first, "there is none") == [Status.NO_BASELINE]
    before = base(first.accuracy)
    (verdict,) = verdicts_on(measured(scores, before, max_drop=2.0), before)
    assert verdict.status is Status.INCONCLUSIVE
    assert "missing in the candidate (1): nothing bounds" in verdict.reason


def test_what_the_reference_lacks_is_named_and_hides_no_loss() -> None:
    """It changes the samples that are compared, and the line at the end says so; the verdict is on the others."""
    result = measured(Scores.from_arrays(np.ones(N - 1), np.ones(N), deterministic=True), max_drop=0.5)
    assert statuses(result) == [Status.PASS]
    assert "warning: test: samples missing in the reference and left out of both sides: 1" in lines_of(result)


def lines_of(result: Measured) -> list[str]:
    """The lines below the table, as the terminal and the comment of a pull request have them."""
    verdicts = verdicts_on(result)
    record = build_record(result, status=worst(verdicts), verdicts=verdicts).record
    lines = summary([record]).splitlines()
    comment = run_comment(None, [record])
    assert [line for line in lines if line not in comment] == []
    return lines


@pytest.mark.parametrize(
    ("missing", "line"),
    [
        ("exclude", "warning: test: samples missing in the candidate and left out of both sides: 10"),
        ("worst", "warning: test: samples missing in the candidate and counted as its worst score: 10"),
    ],
)
def test_a_pass_says_how_many_samples_are_missing(tmp_path: Path, missing: Missing, line: str) -> None:
    """On the terminal and in Markdown; a check without missing samples says nothing."""
    result = measured(of_files(tmp_path, missing=missing), max_drop=3.0)
    assert statuses(result) == [Status.PASS]
    assert line in lines_of(result)
    whole = measured(Scores.from_arrays(np.ones(N), np.ones(N), deterministic=True), max_drop=3.0)
    assert not any("missing" in line for line in lines_of(whole))


_ANSWERS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=200, max_size=250)


@given(_ANSWERS, st.sets(st.integers(0, 199), max_size=2), st.integers(0, 30), st.data())
def test_a_pass_holds_whatever_the_missing_answers_were(
    tmp_path_factory: pytest.TempPathFactory,
    answers: list[tuple[bool, bool]],
    lacking: set[int],
    tenths: int,
    data: st.DataObject,
) -> None:
    """Of any answers, and any in place of those that are missing: no PASS whose true drop is above the limit."""
    reference, candidate = np.array(answers, dtype=float).T
    candidate = np.where(np.arange(len(candidate)) % 50 == 0, candidate, reference)
    rows = [[{"id": place, "score": score} for place, score in enumerate(side)] for side in (reference, candidate)]
    folder = tmp_path_factory.mktemp("answers")
    paths = (
        write_lines(folder / "r.jsonl", rows[0]),
        write_lines(folder / "c.jsonl", [row for row in rows[1] if row["id"] not in lacking]),
    )
    passes = statuses(measured(Scores.from_files(*paths, deterministic=True), max_drop=tenths / 10)) == [Status.PASS]
    for place in lacking:
        candidate[place] = float(data.draw(st.booleans()))
    assert not passes or 100.0 * (reference.mean() - candidate.mean()) <= tenths / 10 + 1e-6
