"""Scores of single samples that another program gave, as the user names them; they are read when they are judged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pytest_quant.errors import UsageError

Missing: TypeAlias = Literal["exclude", "worst"]
Runs: TypeAlias = tuple[Any, ...]
"""Runs of one side: paths, or arrays (n,)."""

Place: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of the same samples by a reference and a candidate, which were run elsewhere.

    Use a constructor: `from_lm_eval`, `from_files` or `from_arrays`. A side may have several runs, whose differences
    show its noise between runs. Without a reference, the candidate is compared with what the history has of its series.

    Attributes
    ----------
    kind : how the runs are read.
    reference, candidate : the runs of each side; no reference where the candidate is given alone.
    tasks : of lm-eval; empty for all that both sides have.
    metric : name of the score; empty where it is found in the files.
    id, score : what the files call the id of a sample and its score; parts of a nested name are joined by dots.
    ids : of the samples of arrays, (n,); ``None`` for their places.
    better : which way a score is better; ``None`` where the files tell.
    unit, scale : a score times `scale` is in `unit`; ``None`` for percent where all scores lie between 0 and 1.
    deterministic : a run that is repeated gives the same scores.
    missing : ``exclude`` leaves a sample that the candidate lacks out of both sides, and a PASS has to hold also if its
        score there is the worst; ``worst`` gives it that score.
    """

    kind: Literal["lm_eval", "files", "arrays"]
    reference: Runs = field(repr=False)
    candidate: Runs = field(repr=False)
    tasks: tuple[str, ...] = ()
    metric: str = ""
    id: str = "id"
    score: str = "score"
    ids: object | None = field(default=None, repr=False)
    better: Literal["higher", "lower"] | None = None
    unit: str | None = None
    scale: float | None = None
    deterministic: bool = False
    missing: Missing = "exclude"

    def __post_init__(self) -> None:
        """Refuse a side without runs, a direction that is none, and a scale without a unit."""
        if not self.candidate:
            raise UsageError("Scores: there is no candidate", fix="write candidate='results/int4'")
        if self.better not in ("higher", "lower", None):
            raise UsageError("Scores: better gives the direction", value=repr(self.better), allowed="higher, lower")
        if (self.unit is None) is not (self.scale is None):
            raise UsageError("Scores: unit and scale go together", fix="write unit='%', scale=100, or unit='', scale=1")
        if self.missing not in ("exclude", "worst"):
            raise UsageError("Scores: missing is no such rule", value=repr(self.missing), allowed="exclude, worst")

    @classmethod
    def from_lm_eval(
        cls,
        reference: Place | Sequence[Place] | None = None,
        candidate: Place | Sequence[Place] | None = None,
        *,
        task: str | Sequence[str] | None = None,
        metric: str = "",
        deterministic: bool = False,
        missing: Missing = "exclude",
    ) -> Scores:
        """Scores that ``lm_eval --log_samples`` wrote.

        Parameters
        ----------
        reference, candidate : the folder given as ``--output_path``, or files ``samples_<task>_<time>.jsonl`` in it; or
            a list of these. Several files of one task are several runs.
        task : its name, or a list of names; by default all tasks that were run. Several are one family of tests.
        metric : as the results have it, ``acc``, or with the filter, ``exact_match,strict-match``. It may be left out
            where a task has one. Rows of versions before 0.4.7 name no filter: theirs is the one whose mean the results
            beside the file have.
        deterministic : a run that is repeated gives the same answers, as greedy decoding on one machine may. Then the
            drop is a fact about these samples, as it is of an engine; else it is judged on its interval. Runs of a side
            that differ are an error then.
        missing : what counts for a sample that the candidate lacks and the reference has. With ``exclude`` it is left
            out of both sides, and a limit that would not hold with the worst score there is INCONCLUSIVE. With
            ``worst`` the candidate has the worst score there. Samples that the reference lacks are left out.
        """
        tasks = (task,) if isinstance(task, str) else tuple(task or ())
        runs = _runs(reference), _runs(candidate)
        return cls("lm_eval", *runs, tasks, metric, "doc_id", deterministic=deterministic, missing=missing)

    @classmethod
    def from_files(
        cls,
        reference: Place | Sequence[Place] | None = None,
        candidate: Place | Sequence[Place] | None = None,
        *,
        id: str = "id",  # noqa: A002 - what the files call it
        score: str = "score",
        better: Literal["higher", "lower"] = "higher",
        unit: str = "%",
        scale: float = 100.0,
        deterministic: bool = False,
        missing: Missing = "exclude",
    ) -> Scores:
        """Scores in files with one row for each sample: JSON, CSV with a head, or Parquet if pyarrow is installed.

        JSON has an object in each line, or is one list of objects, alone or as ``samples`` of an object.

        Parameters
        ----------
        reference, candidate : a file, or a list of files, one for each run.
        id, score : columns, or keys; ``metrics.f1`` is the key ``f1`` of an object ``metrics``.
        better, unit, scale : as in `Metric`; shares from 0 to 1 are percentages with the defaults. Error rates, with
            ``lower``, may be more than 100 % for single samples.
        deterministic, missing : as in `from_lm_eval`.
        """
        runs = _runs(reference), _runs(candidate)
        return cls("files", *runs, (), score, id, score, None, better, unit, scale, deterministic, missing)

    @classmethod
    def from_arrays(
        cls,
        reference: object,
        candidate: object,
        ids: object | None = None,
        *,
        better: Literal["higher", "lower"] = "higher",
        unit: str = "%",
        scale: float = 100.0,
        name: str = "score",
        deterministic: bool = False,
        missing: Missing = "exclude",
    ) -> Scores:
        """Scores in memory.

        Parameters
        ----------
        reference, candidate : an array (n,), or (runs, n) for several runs; ``None`` for no reference.
        ids : of the n samples, texts or whole numbers; by default their places, and then both sides have as many.
        better, unit, scale : as in `from_files`.
        name : of the score in tables.
        deterministic, missing : as in `from_lm_eval`.
        """
        before, after = (() if side is None else (side,) for side in (reference, candidate))
        return cls("arrays", before, after, (), name, "id", name, ids, better, unit, scale, deterministic, missing)


def _runs(given: Place | Sequence[Place] | None) -> Runs:
    listed = [given] if isinstance(given, (str, os.PathLike)) else list(given or ())
    return tuple(Path(place).expanduser() for place in listed)
