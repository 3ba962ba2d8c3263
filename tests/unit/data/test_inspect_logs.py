"""Logs of inspect are read with the scores that inspect itself reports, or refused in our words.

The logs were written by inspect-ai 0.3.285, with answers in place of a model: 8 questions, twice on the sides and once
in `several`, which has a scorer of grades, another of two numbers, and another of true and false.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant.data import inspect_logs
from pytest_quant.data.score_pairs import read_scores
from pytest_quant.errors import UsageError
from pytest_quant.spec import Scores
from tests.unit.data.test_score_pairs import refused

LOGS = Path(__file__).parent / "inspect_logs"


def parts_of(name: str) -> dict[str, Any]:
    """The parts of a log by their names."""
    reader, _ = inspect_logs._zip_reader()
    with reader.ZipFile(LOGS / f"{name}.eval") as parts:
        return {part: json.loads(parts.read(part)) for part in parts.namelist()}


def figures_of(name: str, scorer: str) -> dict[str, float]:
    """What inspect reports of a scorer."""
    scores = parts_of(name)["header.json"]["results"]["scores"]
    (score,) = (score for score in scores if score["name"] == scorer)
    return {metric["name"]: metric["value"] for metric in score["metrics"].values()}


def deflated(path: Path, name: str, change: Callable[[dict[str, Any]], object] = lambda _: None) -> Path:
    """The same log as versions of before 2026 write it."""
    change(parts := parts_of(name))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, value in parts.items():
            archive.writestr(part, json.dumps(value))
    return path


def as_json(path: Path, name: str) -> Path:
    """The same log in inspect's other format, which has all messages of the samples."""
    parts = parts_of(name)
    samples = [value for part, value in parts.items() if part.startswith("samples/")]
    path.write_text(json.dumps({**parts["header.json"], "samples": samples}))
    return path


@pytest.mark.parametrize("write", [None, deflated, as_json])
def test_epochs_are_runs_with_the_mean_that_inspect_reports(tmp_path: Path, write: Any) -> None:
    """Grades are 1, 0.5 and 0; inspect's error is that of the questions, whose scores are means over the epochs."""
    sides = [LOGS / f"{side}.eval" for side in ("fp16", "int4")]
    if write:
        ending = "json" if write is as_json else "eval"
        sides = [write(tmp_path / f"{side.stem}.{ending}", side.stem) for side in sides]
    (paired,) = read_scores(Scores.from_inspect(*sides))
    for rows, name in ((paired.reference, "fp16"), (paired.candidate, "int4")):
        figures, questions = figures_of(name, "grades"), rows.mean(axis=0)
        assert rows.shape == (2, 8)
        assert questions.mean() == pytest.approx(figures["accuracy"])
        assert np.std(questions, ddof=1) / np.sqrt(8) == pytest.approx(figures["stderr"])
    assert {*paired.reference.ravel(), *paired.candidate.ravel()} == {0.0, 0.5, 1.0}
    assert (paired.metric, paired.unit, paired.copies) == ("grades", "%", ((0, 1), (0, 1)))


@pytest.mark.parametrize(
    ("scorer", "name", "metric"),
    [
        ("grades", "grades", "accuracy"),
        ("right", "right", "mean"),
        ("judge.style", "style", "mean"),
        ("judge.length", "length", "mean"),
    ],
)
def test_one_of_several_scorers_is_named(scorer: str, name: str, metric: str) -> None:
    """A score that is a dict is named with its key; each has the mean that inspect reports."""
    (paired,) = read_scores(Scores.from_inspect(None, LOGS / "several.eval", scorer=scorer))
    assert paired.candidate.mean() == pytest.approx(figures_of("several", name)[metric])
    assert paired.metric == scorer


def test_a_folder_has_the_logs_of_one_side(tmp_path: Path) -> None:
    """Two logs of two epochs are four runs; what is no log in the folder is not read."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.eval").write_bytes((LOGS / "fp16.eval").read_bytes())
    (tmp_path / "notes.txt").write_text("first try")
    (paired,) = read_scores(Scores.from_inspect(LOGS / "int4.eval", tmp_path))
    assert (paired.reference.shape, paired.candidate.shape) == ((2, 8), (4, 8))


def test_a_key_of_the_metadata_is_the_cluster() -> None:
    """Questions of one subject depend on each other."""
    (paired,) = read_scores(Scores.from_inspect(None, LOGS / "fp16.eval", cluster="metadata.subject"))
    assert paired.clusters == ("s0", "s1", "s2", "s3", "s4", "s5", "s6", "s0")


def _lose(parts: dict[str, Any]) -> None:
    """As inspect logs a sample that failed, and one that a scorer did not score."""
    parts["summaries.json"][0].update(scores={}, error="ValueError('timed out')")
    parts["summaries.json"][1]["scores"]["grades"]["value"] = float("nan")


def test_what_failed_or_was_not_scored_is_missing(tmp_path: Path) -> None:
    """The questions count as those that the candidate lacks."""
    path = deflated(tmp_path / "c.eval", "int4", _lose)
    (paired,) = read_scores(Scores.from_inspect(LOGS / "fp16.eval", path, missing="worst"))
    assert paired.missing == (0, 0, 2)
    assert paired.candidate[0, :2].tolist() == [0.0, 0.0]


def _other_target(parts: dict[str, Any]) -> None:
    for sample in parts["summaries.json"]:
        sample["target"] = "b"


def test_another_question_under_an_id_is_another_sample(tmp_path: Path) -> None:
    """The target belongs to the question: a task that was mended between the runs is not the same one."""
    path = deflated(tmp_path / "c.eval", "int4", _other_target)
    assert "has other prompts for 8 of 8 samples" in refused(Scores.from_inspect(LOGS / "fp16.eval", path))


def _write(content: bytes, ending: str = "eval") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / f"c.{ending}"
        path.write_bytes(content)
        return path

    return write


def _without(*names: str) -> Callable[[Path], Path]:
    def change(parts: dict[str, Any]) -> None:
        for name in names:
            del parts[name]

    return lambda folder: deflated(folder / "c.eval", "fp16", change)


def _status(value: str) -> Callable[[Path], Path]:
    return lambda folder: deflated(folder / "c.eval", "fp16", lambda parts: parts["header.json"].update(status=value))


def _two_tasks(folder: Path) -> Path:
    deflated(folder / "a.eval", "fp16")
    deflated(folder / "b.eval", "fp16", lambda parts: parts["header.json"]["eval"].update(task="others"))
    return folder


def _damage(folder: Path) -> Path:
    """Bytes in the middle of a compressed part that is read are zero."""
    content = bytearray((LOGS / "fp16.eval").read_bytes())
    with zipfile.ZipFile(LOGS / "fp16.eval") as archive:
        part = archive.getinfo("summaries.json")
    middle = part.header_offset + part.compress_size // 2
    content[middle : middle + 100] = bytes(100)
    return _write(bytes(content))(folder)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_write(b""), ["c.eval is no whole log of inspect", "inspect log dump"]),
        (_write((LOGS / "fp16.eval").read_bytes()[:9000]), ["c.eval is no whole log of inspect"]),
        (_damage, ["c.eval is no whole log of inspect"]),
        (_without("header.json", "summaries.json"), ["no whole log", "header.json", "whether the run has ended"]),
        (_write(b"[1, 2]", "json"), ["c.json is no whole log"]),
        (_write(b'{"status": "success", "eval": {"task": "t"}, "samples": [5]}', "json"), ["no whole log"]),
        (
            _write(b'{"status": "success", "eval": {"task": "t"}, "samples": [{"id": 1, "scores": [1]}]}', "json"),
            ["no whole log"],
        ),
        (_write(b'{"status": "success", "eval": {"task": "t"}, "samples": []}', "json"), ["0 scorers"]),
        (_write(b'{"cut": ', "json"), ["no whole log"]),
        (_status("error"), ["the run of", "did not succeed", "error", "inspect eval-retry"]),
        (_two_tasks, ["logs of one task", "others, questions", "name the files of one task"]),
        (lambda folder: folder, ["logs of one task", "got: none"]),
        (lambda _: LOGS / "several.eval", ["several.eval has 4 scorers", "judge.style", "write scorer='grades'"]),
    ],
)
def test_what_is_no_log_of_a_whole_run_is_refused(
    tmp_path: Path, make: Callable[[Path], Path], words: list[str]
) -> None:
    """Cut, damaged, unfinished and foreign files; a run that failed; several tasks, and several scorers."""
    message = refused(Scores.from_inspect(None, make(tmp_path)))
    assert [word for word in words if word not in message] == []


def test_an_unknown_scorer_is_refused_on_either_side() -> None:
    """The scorer of the candidate is that of the reference."""
    for sides in ((LOGS / "fp16.eval", LOGS / "several.eval"), (LOGS / "several.eval", LOGS / "fp16.eval")):
        scores = Scores.from_inspect(*sides, scorer="right")
        assert "fp16.eval has 1 scorers\n  got: right\n  allowed: grades" in refused(scores)


def test_without_zstandard_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python reads such archives from 3.14 on."""
    with zipfile.ZipFile(LOGS / "fp16.eval") as archive:
        assert archive.getinfo("header.json").compress_type == 93

    def open_part(*_: object) -> Any:
        raise NotImplementedError("That compression method is not supported")

    monkeypatch.setattr(inspect_logs, "_zip_reader", lambda: (zipfile, zipfile.BadZipFile))
    monkeypatch.setattr(zipfile.ZipFile, "open", open_part)
    message = refused(Scores.from_inspect(None, LOGS / "fp16.eval"), UsageError)
    assert 'pip install "pytest-quant[inspect]"' in message
