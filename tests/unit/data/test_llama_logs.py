"""What llama-perplexity prints is read chunk by chunk, with the score that it prints at the end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_quant.data.score_pairs import read_scores
from pytest_quant.measure.scored import metric_of
from pytest_quant.result import Status
from pytest_quant.spec import Scores
from tests.support.llama import TOKENS, against_base, losses, plain, so_far
from tests.unit.data.test_score_pairs import refused
from tests.unit.measure.test_scored import measured, statuses


def write(path: Path, text: str) -> Path:
    """Write a log."""
    path.write_text(text, encoding="utf-8")
    return path


def test_the_scores_are_the_final_estimates_and_chunks_are_paired(tmp_path: Path) -> None:
    """The text is as hard for both, so that the interval of the difference is far narrower than those of the sides."""
    before, after = losses(300, 1), losses(300, 2, more=0.02)
    paths = (write(tmp_path / name, plain(side)) for name, side in (("fp16.log", before), ("q4.log", after)))
    result = measured(Scores.from_llama_perplexity(*paths), max_drop=0.15)
    accuracy = result.accuracy
    assert (accuracy.reference, accuracy.candidate) == pytest.approx(
        (np.exp(before.mean()), np.exp(after.mean())), abs=5.1e-5
    )
    assert (accuracy.metric, accuracy.unit, accuracy.better, accuracy.n) == ("perplexity", "", "lower", 300)
    assert accuracy.drop_ci is not None
    assert accuracy.candidate_ci is not None
    assert accuracy.drop_ci.low < accuracy.drop < accuracy.drop_ci.high  # type: ignore[operator]
    width, own = (ends.high - ends.low for ends in (accuracy.drop_ci, accuracy.candidate_ci))
    assert width < 0.1 * own
    assert statuses(result) == [Status.PASS]


def test_the_figure_of_a_chunk_is_its_own(tmp_path: Path) -> None:
    """Means so far are taken apart, within what four digits leave open: at chunk i, i times half of the last digit."""
    values = losses(40, 1)
    (paired,) = read_scores(Scores.from_llama_perplexity(None, write(tmp_path / "a.log", plain(values))))
    order = [paired.ids.index(str(number)) for number in range(1, 41)]
    open_digits = 2.0 * np.arange(1, 41) * 5e-5 / np.exp(so_far(values))
    assert np.all(np.abs(paired.candidate[0, order] - values.mean(axis=1)) <= open_digits)
    assert metric_of(paired).aggregate(paired.candidate[0]) == pytest.approx(np.exp(values.mean()), abs=5.1e-5)


def test_a_run_against_its_base_has_both_sides(tmp_path: Path) -> None:
    """Perplexities of both, the mean divergence from 0 on, and the share of equal answers from 100 % down."""
    base, values = losses(60, 1), losses(60, 2, more=0.03)
    random = np.random.default_rng(3)
    kld, top = random.gamma(1.0, 0.03, size=(60, TOKENS)), (random.random((60, TOKENS)) < 0.96).astype(float)
    log = write(tmp_path / "q4.log", against_base(values, base, kld, top))
    wanted = {
        "perplexity": (np.exp(base.mean()), np.exp(values.mean()), "", 1e-4),
        "kld": (0.0, kld.mean(), "nats", 1e-5),
        "same_top": (100.0, 100.0 * top.mean(), "%", 1e-3),
    }
    for figure, (reference, candidate, unit, digits) in wanted.items():
        accuracy = measured(Scores.from_llama_perplexity(candidate=log, figure=figure)).accuracy  # type: ignore[arg-type]
        assert (accuracy.reference, accuracy.candidate) == pytest.approx((reference, candidate), abs=digits)
        assert (accuracy.unit, accuracy.n) == (unit, 60)
        assert accuracy.drop is not None
        assert accuracy.drop > 0.0
        assert accuracy.drop_ci is not None
    both = Scores.from_llama_perplexity(write(tmp_path / "fp16.log", plain(base)), log)
    assert measured(both).accuracy.reference == pytest.approx(np.exp(base.mean()), abs=5.1e-5)


@pytest.mark.parametrize("figure", ["perplexity", "kld", "same_top"])
def test_a_model_that_is_its_own_base_loses_nothing(tmp_path: Path, figure: str) -> None:
    """Divergences of rounding may be below 0, and all tokens are the same."""
    values = losses(20, 1)
    text = against_base(values, values, np.full_like(values, -1e-6), np.ones_like(values))
    log = write(tmp_path / "same.log", text)
    result = measured(Scores.from_llama_perplexity(candidate=log, figure=figure), max_drop=0.01)  # type: ignore[arg-type]
    assert result.accuracy.drop == pytest.approx(0.0, abs=2e-6)


def test_runs_have_the_noise_of_their_perplexities(tmp_path: Path) -> None:
    """The spread of perplexities is that of the means of -ln p times the perplexity, to first order."""
    sides = [losses(200, seed) for seed in range(4)]
    logs = [write(tmp_path / f"{place}.log", plain(side)) for place, side in enumerate(sides)]
    accuracy = measured(Scores.from_llama_perplexity(logs[:1], logs[1:], deterministic=False)).accuracy
    perplexities = [np.exp(side.mean()) for side in sides[1:]]
    assert accuracy.run_sd == pytest.approx(float(np.std(perplexities, ddof=1)), rel=0.02)


@pytest.mark.parametrize(
    ("text", "figure", "words"),
    [
        ("", "perplexity", ["does not have the perplexity of all chunks", "0 of 0", "tee FILE"]),
        ("main: error: unable to load model\n", "perplexity", ["0 of 0"]),
        (plain(losses(9, 1)).partition("[7]")[0], "perplexity", ["6 of 9"]),
        (plain(losses(9, 1)) + plain(losses(9, 2)), "perplexity", ["18 of 9"]),
        (
            plain(losses(9, 1)),
            "kld",
            ["does not have the kld of all chunks", "llama-perplexity --kl-divergence"],
        ),
        ("[1]4.1234,[2]nan,[3]nan,", "perplexity", ["chunk 2", "is nan", "a finite number"]),
        ("       0  29.3171  3.378171  1.690071\n", "perplexity", ["0 of 0"]),
        (plain(losses(9, 1)).replace("[", "\x00["), "same_top", ["0 of 9"]),
    ],
)
def test_what_is_no_whole_log_is_refused(tmp_path: Path, text: str, figure: str, words: list[str]) -> None:
    """Nothing, another output, one that was cut, two in one file, another figure, numbers that are none."""
    log = write(tmp_path / "q4.log", text)
    message = refused(Scores.from_llama_perplexity(candidate=log, figure=figure))  # type: ignore[arg-type]
    assert [word for word in ["q4.log", *words] if word not in message] == []


def test_texts_of_other_lengths_are_other_samples(tmp_path: Path) -> None:
    """Another context, or another text, has other chunks."""
    paths = (write(tmp_path / f"{n}.log", plain(losses(n, 1))) for n in (100, 50))
    assert "the runs have other samples" in refused(Scores.from_llama_perplexity(*paths))


def test_a_folder_is_no_log(tmp_path: Path) -> None:
    """The message names it."""
    assert "cannot be read" in refused(Scores.from_llama_perplexity(candidate=tmp_path))
