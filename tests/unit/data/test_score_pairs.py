"""Scores of both sides are paired by the ids of their samples; what is wrong with a file is said with its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.data import score_files
from pytest_quant.data.score_pairs import read_scores
from pytest_quant.errors import DataError, QuantError, UsageError
from pytest_quant.spec import Scores

Rows = Sequence[dict[str, object]]


def write_lines(path: Path, rows: Rows) -> Path:
    """Write rows as JSON lines, as Python's own writer has them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows_of(scores: Sequence[object], **more: object) -> list[dict[str, object]]:
    """Rows as other harnesses write them."""
    return [{"id": f"s{place}", "score": score, **more} for place, score in enumerate(scores)]


def sample(doc_id: int, score: object, *, kind: str = "none", prompt: str = "p", **more: object) -> dict[str, object]:
    """A row as lm-eval 0.4.13 writes it, without its long texts."""
    row = {"doc_id": doc_id, "filter": kind, "metrics": ["exact_match"], "doc_hash": f"d{doc_id}"}
    return {**row, "prompt_hash": f"{prompt}{doc_id}", "target_hash": f"t{doc_id}", "exact_match": score, **more}


def samples(folder: Path, rows: Rows, *, task: str = "gsm8k", time: str = "2026-11-26T21-24-27.376241") -> Path:
    """Write the samples of one run where lm-eval writes them, and return the folder it was given."""
    write_lines(folder / "model" / f"samples_{task}_{time}.jsonl", rows)
    return folder


def refused(scores: Scores, kind: type[QuantError] = DataError) -> str:
    """Return the whole message of scores that are refused."""
    with pytest.raises(kind) as error:
        read_scores(scores)
    return str(error.value)


def of_files(folder: Path, reference: Rows, candidate: Rows) -> Scores:
    """Scores of two files of JSON lines."""
    return Scores.from_files(write_lines(folder / "r.jsonl", reference), write_lines(folder / "c.jsonl", candidate))


@given(order=st.permutations(range(12)), flips=st.lists(st.booleans(), min_size=12, max_size=12))
def test_pairs_do_not_depend_on_the_order_of_rows(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], flips: list[bool]
) -> None:
    """A run whose rows come in another order gives the same arrays and the same digest."""
    folder = tmp_path_factory.mktemp("order")
    rows = rows_of([float(flip) for flip in flips])
    reference = rows_of([1.0] * 12)
    (straight,) = read_scores(of_files(folder, reference, rows))
    (mixed,) = read_scores(of_files(folder, reference, [rows[place] for place in order]))
    np.testing.assert_array_equal(straight.candidate, mixed.candidate)
    assert straight.digest == mixed.digest
    assert straight.candidate.sum() == sum(flips)


def test_three_formats_give_the_same_scores(tmp_path: Path) -> None:
    """JSON lines, CSV with a byte order mark, and Parquet; names with dots lead into objects."""
    values = [1.0, 0.0, 0.5]
    lines: Rows = [{"id": f"s{place}", "metrics": {"f1": value}} for place, value in enumerate(values)]
    nested = Scores.from_files(None, write_lines(tmp_path / "a.jsonl", lines), score="metrics.f1")
    table = tmp_path / "a.csv"
    table.write_text("\ufeffid,score\n" + "".join(f"s{place},{value}\n" for place, value in enumerate(values)))
    assert read_scores(nested)[0].candidate.tolist() == [values]
    assert read_scores(Scores.from_files(None, table))[0].candidate.tolist() == [values]
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    arrow = pytest.importorskip("pyarrow")
    parquet.write_table(arrow.table({"id": ["s0", "s1", "s2"], "score": values}), tmp_path / "a.parquet")
    assert read_scores(Scores.from_files(None, tmp_path / "a.parquet"))[0].candidate.tolist() == [values]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"id": "s9", "score": [1.0, 0.0]}, ["line 3", "'score' is not a number", "[1.0, 0.0]", "next"]),
        ({"id": "s9", "score": float("nan")}, ["line 3", "'score' is nan", "a finite number", "next"]),
        ({"id": "s9", "score": 10**400}, ["line 3", "'score' is inf", "a finite number"]),
        ({"id": "s9", "score": None}, ["line 3", "'score' is not a number", "None"]),
        ({"id": "s9", "acc": 1.0}, ["line 3", "there is no 'score'", "acc"]),
        ({"score": 1.0}, ["line 3", "there is no 'id'"]),
        ({"id": ["a"], "score": 1.0}, ["line 3", "an id is a text or a whole number", "['a']"]),
        ({"id": 1.5, "score": 1.0}, ["line 3", "an id is a text or a whole number", "1.5"]),
        ({"id": True, "score": 1.0}, ["line 3", "an id is a text or a whole number", "True"]),
        ({"id": "s0", "score": 1.0}, ["line 3", "another row has the id 's0'", "one file for each run"]),
    ],
)
def test_a_row_that_cannot_be_read_is_named(tmp_path: Path, row: dict[str, object], words: list[str]) -> None:
    """The message has the file, the line, the value, and what to do."""
    message = refused(of_files(tmp_path, rows_of([1.0, 0.0]), [*rows_of([1.0, 0.0]), row]))
    assert [word for word in ["c.jsonl", *words] if word not in message] == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"id": "s0", "score": 1.0}\n{"id": "s1", "sco', ["line 2", "it is no JSON", "has ended"]),
        (b'{"id": "s0", "score": 1.0}\n[1, 2]\n', ["line 2", "it is no object"]),
        (b'{"id": "s0", "score": 1.0}\n' + b"[" * 100_000, ["line 2", "it is no JSON"]),
        (b"\xff\xfe{\n", ["line 1", "it is no JSON"]),
        (b"\n\n", ["has no row"]),
    ],
)
def test_a_broken_file_is_an_error_with_its_line(tmp_path: Path, content: bytes, words: list[str]) -> None:
    """Cut lines, other values, endless nesting, bytes that are no text, and nothing at all."""
    path = tmp_path / "c.jsonl"
    path.write_bytes(content)
    message = refused(Scores.from_files(None, path))
    assert [word for word in ["c.jsonl", *words] if word not in message] == []


def test_a_line_without_end_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of more bytes than any sample has ends the reading, in JSON lines and in CSV."""
    monkeypatch.setattr(score_files, "MOST_LINE_BYTES", 1000)
    for name in ("c.jsonl", "c.csv"):
        (tmp_path / name).write_bytes(b"id,score\n" + b"x" * 5000)
        assert "line 2: it has more than 1000 bytes" in refused(
            Scores.from_files(None, tmp_path / name)
        ) or name.endswith("jsonl")
    (tmp_path / "c.jsonl").write_bytes(b'{"id": "' + b"x" * 5000)
    assert "line 1: it has more than 1000 bytes" in refused(Scores.from_files(None, tmp_path / "c.jsonl"))


def test_bytes_that_are_no_table_are_errors(tmp_path: Path) -> None:
    """A CSV in another encoding, one with an open quote, a Parquet file that is none, and another ending."""
    (tmp_path / "a.csv").write_bytes(b"id,score\ns0,1\ns\xff,1\n")
    assert "a.csv, line 3: it is no CSV in UTF-8" in refused(Scores.from_files(None, tmp_path / "a.csv"))
    (tmp_path / "b.csv").write_bytes(b'id,score\n"s0,1\n')
    assert "it is no CSV in UTF-8" in refused(Scores.from_files(None, tmp_path / "b.csv"))
    (tmp_path / "c.csv").write_bytes(b"id,right\ns0,1,2,3\n")
    assert "c.csv, line 2: there is no 'score'" in refused(Scores.from_files(None, tmp_path / "c.csv"))
    (tmp_path / "a.txt").write_text("1")
    assert ".jsonl, .ndjson, .json, .csv, .parquet" in refused(Scores.from_files(None, tmp_path / "a.txt"), UsageError)
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    assert "a.parquet is no Parquet file" in refused(Scores.from_files(None, tmp_path / "a.parquet"))


def test_few_missing_samples_are_left_out_and_named(tmp_path: Path) -> None:
    """One of 200 that a side lacks is a note; three of 200 are another set of samples, and an error."""
    rows = rows_of([1.0] * 200)
    (paired,) = read_scores(of_files(tmp_path, rows, rows[1:]))
    assert paired.candidate.shape == (1, 199)
    assert paired.notes == ("candidate c.jsonl lacks 1 of 200 samples: s0",)
    assert paired.missing == (0, 1, 0)
    message = refused(of_files(tmp_path, rows, rows[3:]))
    assert "candidate c.jsonl lacks 3 of 200 samples: s0, s1, s2" in message
    assert "at least 99% of the ids" in message


def test_another_prompt_under_an_id_is_another_sample(tmp_path: Path) -> None:
    """lm-eval logs hashes of document, prompt and target: a chat template on one side alone is an error."""
    reference = samples(tmp_path / "r", [sample(place, 1.0) for place in range(50)])
    candidate = samples(tmp_path / "c", [sample(place, 1.0, prompt="chat") for place in range(50)])
    message = refused(Scores.from_lm_eval(reference, candidate))
    assert "has other prompts for 50 of 50 samples: 0, 1, 10, ..." in message
    assert "chat template" in message


def test_runs_of_a_task_are_its_files_and_no_others(tmp_path: Path) -> None:
    """Two files of one task are two runs; a task whose name begins alike is another one."""
    for second, scores in enumerate([[1, 1, 0], [1, 0, 0]]):
        rows = [sample(place, score) for place, score in enumerate(scores)]
        samples(tmp_path / "c", rows, time=f"2026-11-26T21-24-0{second}")
    samples(tmp_path / "c", [sample(0, 1)], task="gsm8k_cot")
    (paired,) = read_scores(Scores.from_lm_eval(None, tmp_path / "c", task="gsm8k"))
    assert sorted(paired.candidate.tolist()) == [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    assert (paired.task, paired.metric, paired.unit, paired.scale) == ("gsm8k", "exact_match,none", "%", 100.0)
    assert [each.task for each in read_scores(Scores.from_lm_eval(None, tmp_path / "c"))] == ["gsm8k", "gsm8k_cot"]


@pytest.mark.parametrize("missing", ["exclude", "worst"])
@pytest.mark.parametrize(
    ("reference", "candidate", "counts"),
    [
        (slice(None), slice(1, None), (0, 1)),
        (slice(1, None), slice(None), (1, 0)),
        (slice(1, None), slice(2, None), (0, 1)),
        (slice(1, None), slice(None, -1), (1, 1)),
    ],
)
def test_what_the_candidate_lacks_is_left_out_or_has_the_worst_score(
    tmp_path: Path, reference: slice, candidate: slice, counts: tuple[int, int], missing: Literal["exclude", "worst"]
) -> None:
    """What the reference lacks is left out of both in either way: as its worst score it would hide a loss."""
    rows = rows_of([1.0] * 200)
    paths = (write_lines(tmp_path / f"{name}.jsonl", rows[part]) for name, part in (("r", reference), ("c", candidate)))
    (paired,) = read_scores(Scores.from_files(*paths, missing=missing))
    every = {row["id"] for row in (*rows[reference], *rows[candidate])}
    left_out = counts[0] + counts[1] * (missing == "exclude")
    assert len(paired.ids) == len(every) - left_out
    assert paired.missing == ((*counts, 0) if missing == "exclude" else (counts[0], 0, counts[1]))
    assert paired.reference.sum() == len(paired.ids)
    assert paired.candidate.sum() == len(paired.ids) - paired.missing[2]


def test_a_sample_that_both_sides_lack_somewhere_is_the_references(tmp_path: Path) -> None:
    """The second run of the reference ends early, and the candidate too: there is nothing to lose, or to count."""
    rows = rows_of([1.0] * 200)
    first, second, candidate = (
        write_lines(tmp_path / f"{place}.jsonl", rows[part])
        for place, part in enumerate((slice(200), slice(1, 200), slice(1, 200)))
    )
    (paired,) = read_scores(Scores.from_files([first, second], candidate))
    assert (paired.missing, paired.candidate.shape) == ((1, 0, 0), (1, 199))


def test_more_may_be_missing_where_it_is_counted_and_other_prompts_may_not(tmp_path: Path) -> None:
    """A tenth of the answers timed out: a set of its own, or as many wrong answers. Other prompts are no answers."""
    rows = rows_of([1.0] * 200)
    assert "other samples" in refused(of_files(tmp_path, rows, rows[20:]))
    paths = (tmp_path / "r.jsonl", tmp_path / "c.jsonl")
    (paired,) = read_scores(Scores.from_files(*paths, missing="worst"))
    assert (paired.candidate.mean(), paired.missing) == (0.9, (0, 0, 20))
    assert "other samples" in refused(Scores.from_files(*paths[::-1], missing="worst"))
    reference = samples(tmp_path / "r", [sample(place, 1.0) for place in range(50)])
    candidate = samples(tmp_path / "c", [sample(place, 1.0, prompt="chat") for place in range(50)])
    assert "has other prompts for 50 of 50" in refused(Scores.from_lm_eval(reference, candidate, missing="worst"))


def test_the_worst_score_is_that_of_the_direction() -> None:
    """An error rate has 100 %, in its own scale; scores without a range have no worst, and are left out."""
    rate, of_100, free = (
        Scores.from_arrays(np.zeros(200), np.zeros(199), better="lower", unit=unit, scale=scale, missing="worst")
        for unit, scale in (("%", 100.0), ("%", 1.0), ("edits", 1.0))
    )
    assert [read_scores(each)[0].candidate.max() for each in (rate, of_100)] == [1.0, 100.0]
    assert (read_scores(free)[0].candidate.shape, read_scores(free)[0].missing) == ((1, 199), (0, 1, 0))


def test_runs_with_equal_scores_keep_their_weight(tmp_path: Path) -> None:
    """Of two runs alike and a third one the mean is that of three, in arrays and in files, which tell no answers."""
    scores = [[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]]
    files = [write_lines(tmp_path / f"{place}.jsonl", rows_of(run)) for place, run in enumerate(scores)]
    for alone in (Scores.from_arrays(None, scores), Scores.from_files(None, files)):
        (paired,) = read_scores(alone)
        assert paired.candidate.mean() == pytest.approx(4 / 6)
        assert (paired.copies[1], paired.notes) == ((0, 1, 2), ())
    (paired,) = read_scores(Scores.from_files(None, [files[2], files[0], files[2]]))
    assert (paired.candidate.mean(), paired.copies[1]) == (pytest.approx(5 / 6), (0, 1, 0))
    assert paired.notes[0].startswith("candidate 2.jsonl is a copy of candidate 2.jsonl")


def test_runs_with_equal_answers_are_copies_whatever_the_order_of_rows(tmp_path: Path) -> None:
    """Devices log in another order; equal scores of other answers, and answers without a log, are no copies."""
    rows = [sample(place, place % 2, resps=[[f"answer {place}"]]) for place in range(6)]
    others = [sample(place, place % 2, resps=[[f"another {place}"]]) for place in range(6)]
    bare = [sample(place, place % 2) for place in range(6)]
    for second, run in enumerate([rows, rows[::-1], others, bare, bare, others]):
        samples(tmp_path, run, time=f"2026-11-26T21-24-0{second}")
    (paired,) = read_scores(Scores.from_lm_eval(None, tmp_path))
    assert paired.candidate.shape == (6, 6)
    assert paired.copies[1] == (0, 0, 2, 3, 4, 2)
    assert paired.notes == tuple(
        f"candidate samples_gsm8k_2026-11-26T21-24-0{copy}.jsonl is a copy of "
        f"candidate samples_gsm8k_2026-11-26T21-24-0{of}.jsonl: it counts, and shows no noise between runs"
        for copy, of in ((1, 0), (5, 2))
    )


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_repeatable_scores_do_not_differ_from_run_to_run(side: str) -> None:
    """Two runs that differ contradict deterministic=True; rounding and copies do not."""
    same, other = [[1.0, 0.5], [1.0, 0.5 + 1e-12]], [[1.0, 0.5], [0.0, 0.5]]
    sides = (other, same) if side == "reference" else (same, other)
    message = refused(Scores.from_arrays(*sides, deterministic=True))
    assert [
        word
        for word in ("deterministic=True", f"1 samples differ in {side} run 1, {side} run 2", "leave out")
        if word not in message
    ] == []
    assert read_scores(Scores.from_arrays(same, same, deterministic=True))[0].candidate.shape == (2, 2)


def _two_models(folder: Path) -> Scores:
    write_lines(folder / "a" / "samples_t_2026-11-26T21-24-00.jsonl", [sample(0, 1)])
    write_lines(folder / "b" / "samples_t_2026-11-26T21-24-01.jsonl", [sample(0, 1)])
    return Scores.from_lm_eval(None, folder)


def _two_filters(folder: Path) -> Scores:
    rows = [sample(0, 1, kind=kind) for kind in ("strict-match", "flexible-extract")]
    return Scores.from_lm_eval(None, samples(folder, rows))


def _two_tasks(folder: Path) -> Scores:
    rows = [sample(0, 1), sample(0, 1, doc_hash="other")]
    return Scores.from_lm_eval(None, samples(folder, rows))


def _one_file(folder: Path) -> Scores:
    samples(folder, [sample(0, 1)])
    return Scores.from_lm_eval(folder, folder)


def _cut(folder: Path) -> Scores:
    samples(folder, [sample(0, 1)])
    results = {"n-samples": {"gsm8k": {"effective": 2}}}
    (folder / "model" / "results_2026-11-26T21-24-27.376241.json").write_text(json.dumps(results))
    return Scores.from_lm_eval(None, folder)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_two_models, ["samples of several models", "a, b"]),
        (_two_filters, ["several metrics", "exact_match,strict-match, exact_match,flexible-extract"]),
        (_two_tasks, ["another row has the id '0'", "here gsm8k"]),
        (_one_file, ["reference and candidate are the same file"]),
        (_cut, ["is not whole", "1 samples, where the results beside it are of 2"]),
        (lambda folder: Scores.from_lm_eval(None, folder), ["there are no samples of lm-eval", "--log_samples"]),
        (
            lambda folder: Scores.from_lm_eval(None, samples(folder, [sample(0, 1)]), task="gsm9k"),
            ["no samples of task 'gsm9k'", "did you mean 'gsm8k'?"],
        ),
        (
            lambda folder: Scores.from_lm_eval(None, samples(folder, [sample(0, 1)]), metric="acc"),
            ["no metric 'acc'", "exact_match,none", "metric='exact_match,none'"],
        ),
    ],
)
def test_files_of_lm_eval_that_do_not_belong_together_are_refused(
    tmp_path: Path, make: Callable[[Path], Scores], words: list[str]
) -> None:
    """Several models below a folder, filters, tasks in one file, one file on both sides, files that were cut."""
    message = refused(make(tmp_path))
    assert [word for word in words if word not in message] == []


def test_results_beside_the_samples_tell_the_direction(tmp_path: Path) -> None:
    """A metric that is better when lower is taken so; a perplexity in a row is a log-likelihood, higher is better."""
    for metric, better in (("exact_match", "lower"), ("perplexity", "higher")):
        folder = samples(tmp_path / metric, [sample(0, 1, metrics=[metric], perplexity=-0.5)])
        results = {"higher_is_better": {"gsm8k": {metric: False}}}
        (folder / "model" / "results_2026-11-26T21-24-27.376241.json").write_text(json.dumps(results))
        assert read_scores(Scores.from_lm_eval(None, folder))[0].better == better


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (Scores.from_arrays(None, [[1.0, 2.0], [3.0, np.inf]]), ["run 2, sample 1: 'score' is inf"]),
        (Scores.from_arrays(None, ["a", "b"]), ["run 1, sample 0: 'score' is not a number"]),
        (Scores.from_arrays(None, np.zeros((2, 2, 2))), ["one number for each sample", "(runs, n)"]),
        (Scores.from_arrays(None, [0.0, 1.0], ids=["a"]), ["for 1 ids"]),
        (Scores.from_arrays(None, [0.0, 1.0], ids=["a", "a"]), ["another row has the id 'a'"]),
        (Scores.from_arrays([0.0, 1.0, 1.0], [0.0, 1.0]), ["candidate run 1 lacks 1 of 3 samples: 2"]),
        (Scores.from_arrays(None, [0.0, 50.0]), ["between 0 and 1, times 100", "0 to 50", "scale=1"]),
    ],
)
def test_arrays_that_are_no_scores_are_refused(scores: Scores, words: list[str]) -> None:
    """Infinity, texts, other numbers of ids, equal ids, other lengths, and percentages that are none."""
    message = refused(scores)
    assert [word for word in words if word not in message] == []


def test_scores_without_a_candidate_or_with_half_a_unit_are_usage_errors() -> None:
    """The constructors say what to write."""
    with pytest.raises(UsageError, match="there is no candidate"):
        Scores.from_lm_eval("runs/fp16")
    with pytest.raises(UsageError, match="unit and scale go together"):
        Scores("arrays", (), ([1.0],), unit="%")
    with pytest.raises(UsageError, match="better gives the direction"):
        Scores.from_arrays(None, [1.0], better="up")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="allowed: exclude, worst"):
        Scores.from_arrays(None, [1.0], missing="ignore")  # type: ignore[arg-type]
