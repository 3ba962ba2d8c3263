"""Scores of single samples that another program gave, as the user names them; they are read when they are judged."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pytest_quant.errors import UsageError

Missing: TypeAlias = Literal["exclude", "worst"]
Runs: TypeAlias = tuple[Any, ...]
"""Runs of one side: paths, or arrays (n,), or dicts of these, see `PARTS`."""

Place: TypeAlias = str | os.PathLike[str]

PARTS = ({"score", "weight"}, {"numerator", "denominator"})
"""Keys of a score of two parts: the score of all samples is sum(score * weight) / sum(weight), or a ratio of sums."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of the same samples by a reference and a candidate, which were run elsewhere.

    Use a constructor: `from_lm_eval`, `from_inspect`, `from_llama_perplexity`, `from_files` or `from_arrays`. A side
    may have several runs, whose differences show its noise between runs. Without a reference, the candidate is compared
    with what the history has of its series.

    Attributes
    ----------
    kind : how the runs are read.
    reference, candidate : the runs of each side; no reference where the candidate is given alone.
    tasks : of lm-eval, or groups of tasks; empty for all that both sides have.
    metric : name of the score; empty where it is found in the files.
    id, score : what the files call the id of a sample and its score, or each part of it by the keys in `PARTS`; parts
        of a nested name are joined by dots.
    ids : of the samples of arrays, (n,); ``None`` for their places.
    cluster : what the files call the cluster of a sample, or an array (n,); ``None`` for independent samples.
    better : which way a score is better; ``None`` where the files tell.
    unit, scale : a score times `scale` is in `unit`; ``None`` for percent where all scores lie between 0 and 1.
    deterministic : a run that is repeated gives the same scores.
    missing : ``exclude`` leaves a sample that the candidate lacks out of both sides, and a PASS has to hold also if its
        score there is the worst; ``worst`` gives it that score.
    """

    kind: Literal["lm_eval", "inspect", "llama_perplexity", "files", "arrays"]
    reference: Runs = field(repr=False)
    candidate: Runs = field(repr=False)
    tasks: tuple[str, ...] = ()
    metric: str = ""
    id: str = "id"
    score: str | Mapping[str, str] = "score"
    ids: object | None = field(default=None, repr=False)
    better: Literal["higher", "lower"] | None = None
    unit: str | None = None
    scale: float | None = None
    deterministic: bool = False
    missing: Missing = "exclude"
    cluster: object | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse a side without runs, a direction that is none, a scale without a unit, and other parts of a score."""
        if not self.candidate:
            raise UsageError("Scores: there is no candidate", fix="write candidate='results/int4'")
        if self.better not in ("higher", "lower", None):
            raise UsageError("Scores: better gives the direction", value=repr(self.better), allowed="higher, lower")
        if (self.unit is None) is not (self.scale is None):
            raise UsageError("Scores: unit and scale go together", fix="write unit='%', scale=100, or unit='', scale=1")
        if self.missing not in ("exclude", "worst"):
            raise UsageError("Scores: missing is no such rule", value=repr(self.missing), allowed="exclude, worst")
        for given in (self.score, *self.reference, *self.candidate):
            if isinstance(given, Mapping) and set(given) not in PARTS:
                allowed = "score and weight, or numerator and denominator"
                raise UsageError("Scores: a score has two parts", value=", ".join(map(str, given)), allowed=allowed)

    @classmethod
    def from_lm_eval(
        cls,
        reference: Place | Sequence[Place] | None = None,
        candidate: Place | Sequence[Place] | None = None,
        *,
        task: str | Sequence[str] | None = None,
        metric: str = "",
        cluster: str | None = None,
        deterministic: bool = False,
        missing: Missing = "exclude",
    ) -> Scores:
        """Scores that ``lm_eval --log_samples`` wrote.

        Parameters
        ----------
        reference, candidate : the folder given as ``--output_path``, or files ``samples_<task>_<time>.jsonl`` in it; or
            a list of these. Several files of one task are several runs.
        task : its name, or a list of names; by default all tasks that were run. Several are one family of tests. A
            group, as ``mmlu``, has one score, with its tasks weighed as lm-eval weighs them.
        metric : as the results have it, ``acc``, or with the filter, ``exact_match,strict-match``. It may be left out
            where a task has one. Rows of versions before 0.4.7 name no filter: a file of theirs must have the rows of
            one alone.
        cluster : key of what samples that depend on each other share, as ``doc.subject`` of a document; see
            `from_arrays`.
        deterministic : a run that is repeated gives the same answers, as greedy decoding on one machine may. Then the
            drop is a fact about these samples, as it is of an engine; else it is judged on its interval. Runs of a side
            that differ are an error then.
        missing : what counts for a sample that the candidate lacks and the reference has. With ``exclude`` it is left
            out of both sides, and a limit that would not hold with the worst score there is INCONCLUSIVE. With
            ``worst`` the candidate has the worst score there. Samples that the reference lacks are left out.
        """
        tasks = (task,) if isinstance(task, str) else tuple(task or ())
        runs, more = (_runs(reference), _runs(candidate)), (deterministic, missing, cluster)
        return cls("lm_eval", runs[0], runs[1], tasks, metric, "doc_id", "score", None, None, None, None, *more)

    @classmethod
    def from_inspect(
        cls,
        reference: Place | Sequence[Place] | None = None,
        candidate: Place | Sequence[Place] | None = None,
        *,
        scorer: str = "",
        better: Literal["higher", "lower"] = "higher",
        cluster: str | None = None,
        deterministic: bool = False,
        missing: Missing = "exclude",
    ) -> Scores:
        """Scores in logs of inspect, ``.eval`` or JSON.

        A grade is 1 for correct, 0.5 for partially correct, else 0. Scores that all lie between 0 and 1 are shares.

        Parameters
        ----------
        reference, candidate : a log, a folder of logs of one task, or a list of these. Each epoch of a log is a run.
        scorer : its name, ``match``, or with the key of a score that is a dict, ``judge.style``. It may be left out
            where the logs have one.
        better : as in `Metric`.
        cluster : key of what samples that depend on each other share, as ``metadata.subject``; see `from_arrays`.
        deterministic, missing : as in `from_lm_eval`. A sample that failed, or was not scored, is missing.
        """
        runs, more = (_runs(reference), _runs(candidate)), (deterministic, missing, cluster)
        return cls("inspect", runs[0], runs[1], (), scorer, "id", "score", None, better, None, None, *more)

    @classmethod
    def from_llama_perplexity(
        cls,
        reference: Place | Sequence[Place] | None = None,
        candidate: Place | Sequence[Place] | None = None,
        *,
        figure: Literal["perplexity", "kld", "same_top"] = "perplexity",
        deterministic: bool = True,
    ) -> Scores:
        """Figures of the chunks of a text, in what ``llama-perplexity`` printed for two models.

        Parameters
        ----------
        reference, candidate : a file with all that it printed, or a list of files, one for each run. What
            ``llama-perplexity --kl-divergence`` printed tells of the base model too: give it as the candidate alone.
        figure : ``perplexity``; or, of ``llama-perplexity --kl-divergence``, ``kld``, the mean divergence from the base
            in nats, or ``same_top``, the percentage of tokens with the most likely token of the base model.
        deterministic : as in `from_lm_eval`.
        """
        runs, is_share = (_runs(reference), _runs(candidate)), figure == "same_top"
        better: Literal["higher", "lower"] = "higher" if is_share else "lower"
        unit = "%" if is_share else "" if figure == "perplexity" else "nats"
        return cls("llama_perplexity", *runs, (), figure, "chunk", figure, None, better, unit, 1.0, deterministic)

    @classmethod
    def from_files(
        cls,
        reference: Place | Sequence[Place] | None = None,
        candidate: Place | Sequence[Place] | None = None,
        *,
        id: str = "id",  # noqa: A002 - what the files call it
        score: str | Mapping[str, str] = "score",
        better: Literal["higher", "lower"] = "higher",
        unit: str = "%",
        scale: float = 100.0,
        cluster: str | None = None,
        deterministic: bool = False,
        missing: Missing = "exclude",
    ) -> Scores:
        """Scores in files with one row for each sample: JSON, CSV with a head, or Parquet if pyarrow is installed.

        JSON has an object in each line, or is one list of objects, alone or as ``samples`` of an object.

        Parameters
        ----------
        reference, candidate : a file, or a list of files, one for each run.
        id, score : columns, or keys; ``metrics.f1`` is the key ``f1`` of an object ``metrics``. A score of two parts
            has a column for each, as ``{"numerator": "errors", "denominator": "words"}``; see `from_arrays`.
        better, unit, scale : as in `Metric`; shares from 0 to 1 are percentages with the defaults. Error rates, with
            ``lower``, may be more than 100 % for single samples.
        cluster : column, or key, of what samples that depend on each other share; see `from_arrays`.
        deterministic, missing : as in `from_lm_eval`.
        """
        runs, name = (_runs(reference), _runs(candidate)), score if isinstance(score, str) else "/".join(score.values())
        return cls("files", *runs, (), name, id, score, None, better, unit, scale, deterministic, missing, cluster)

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
        cluster: object | None = None,
        deterministic: bool = False,
        missing: Missing = "exclude",
    ) -> Scores:
        """Scores in memory.

        Parameters
        ----------
        reference, candidate : an array (n,), or (runs, n) for several runs; ``None`` for no reference. A dict of two
            such arrays is a score of two parts: ``{"score": ..., "weight": ...}``, the mean with these weights, or
            ``{"numerator": ..., "denominator": ...}``, the ratio of their sums. A weight is 0 or more, and a sample of
            weight 0 counts in the sum of numerators alone.
        ids : of the n samples, texts or whole numbers; by default their places, and then both sides have as many.
        better, unit, scale : as in `from_files`.
        name : of the score in tables.
        cluster : (n,) texts or whole numbers that samples which depend on each other share, as those of one document or
            speaker. The interval then holds for other clusters.
        deterministic, missing : as in `from_lm_eval`.
        """
        before, after = (() if side is None else (side,) for side in (reference, candidate))
        more = ids, better, unit, scale, deterministic, missing, cluster
        return cls("arrays", before, after, (), name, "id", name, *more)


def _runs(given: Place | Sequence[Place] | None) -> Runs:
    listed = [given] if isinstance(given, (str, os.PathLike)) else list(given or ())
    return tuple(Path(place).expanduser() for place in listed)
