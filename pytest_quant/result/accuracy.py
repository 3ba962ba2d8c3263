"""How far the candidate is from the reference: of the task's metric, and of each output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from pytest_quant.result.kinds import Better, Count, Interval, Percent, Probability


@dataclass(frozen=True, slots=True)
class OutputFault:
    """An output of the candidate that is broken, whatever the limits.

    Attributes
    ----------
    output : its name in the model.
    kind : ``missing``, ``other shape``, ``other dtype``, ``not finite``, or ``constant`` for one that says nothing
        about the input where the reference's does.
    sample : index in the evaluation set of the first sample that shows it, from 0.
    detail : what was found in place of what, for a message.
    """

    output: str
    kind: str
    sample: Count
    detail: str


@dataclass(frozen=True, slots=True)
class OutputError:
    """How far one output of the candidate lies from the reference's over the whole evaluation set.

    Attributes
    ----------
    name : what limits and messages call it: the output's own name, or ``output0.scores`` for a group of channels.
    group_of : the output that it is a group of channels of; ``None`` for a whole output.
    sqnr_db : signal to quantization noise in dB, 20 log10(||r|| / ||r - c||); higher is better; ``None`` where the two
        are equal, or one of them is all zero or text.
    cosine : of the flattened values, -1..1; ``None`` where one of the two is all zero, or text.
    max_abs_error : largest |r - c|; ``None`` for text.
    sample : index of the first sample with that error; ``None`` for text.
    identical : every value equal.
    reference_constant : the reference gives every sample the same, or, of one sample, one value everywhere.
    centred_sqnr_db : SQNR of what varies over samples, the mean of each value over them taken from both outputs;
        ``None`` unless these means, an offset, hold more than nine tenths of the reference's energy.
    centred_cosine : cosine of the same; 0 for a candidate that does not vary.
    """

    name: str
    sqnr_db: float | None = None
    cosine: float | None = None
    max_abs_error: float | None = None
    sample: Count | None = None
    identical: bool = False
    reference_constant: bool = False
    group_of: str | None = None
    centred_sqnr_db: float | None = None
    centred_cosine: float | None = None


@dataclass(frozen=True, slots=True)
class WorstClass:
    """The class that lost most right answers in percent of its samples.

    Attributes
    ----------
    label : index of the class.
    n : its samples in the evaluation set.
    reference : share of them that the reference gets right, 0..100.
    candidate : share of them that the candidate gets right, 0..100.
    """

    label: int
    n: Count
    reference: float
    candidate: float


class ChangedAnswer(NamedTuple):
    """A sample that the engines give to different classes. In a document, a list of the four in this order.

    Attributes
    ----------
    sample : its index in the evaluation set.
    reference, candidate : the classes.
    margin : how much higher the reference scores its own class than the candidate's, in the unit of the output.
    """

    sample: Count
    reference: Count
    candidate: Count
    margin: float


class ClassScore(NamedTuple):
    """One class: what share of its samples each engine gets right. In a document, a list of the four in this order.

    Attributes
    ----------
    label : index of the class.
    n : its samples in the evaluation set.
    reference : share of them that the reference gets right, 0..100, with four decimals.
    candidate : share of them that the candidate gets right, 0..100, with four decimals.
    """

    label: int
    n: Count
    reference: Percent
    candidate: Percent


@dataclass(frozen=True, slots=True)
class TaskScore:
    """One of several parts that are judged together: a task, a label, a group, or an output with a metric of its own.

    Attributes
    ----------
    name : of the part; empty for the samples of all parts whose intervals do not lie within the limit.
    n : samples compared.
    reference, candidate : scores; ``None`` where the metric is not defined for these samples.
    drop : how much worse the candidate is; ``None`` as for the scores.
    drop_ci : its interval; ``None`` where there is none.
    p : one-sided, that a drop which `max_drop` allows gives such scores; ``None`` without that limit or an interval,
        and for a task that is only listed, because the score of its group is judged.
    metric, unit : of the scores; empty where they are those of the result.
    """

    name: str
    n: Count
    reference: float | None
    candidate: float | None
    drop: float | None
    drop_ci: Interval | None = None
    p: Probability | None = None
    metric: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class AccuracyResult:
    """Reference and candidate over one evaluation set.

    Attributes
    ----------
    n_different : samples of these that differ in their inputs: equal ones count once in intervals and in what a sample
        weighs; ``None`` where inputs are not known.
    metric : name of the metric; ``None`` without labels.
    unit : of the scores and their differences, ``%`` for example, where a drop is in percentage points; ``None``
        without a metric.
    better : which way a score is better; ``None`` without a metric.
    n : samples compared.
    reference : score of the reference in `unit`; ``None`` without a metric.
    candidate : score of the candidate in `unit`; ``None`` without a metric.
    drop : how much worse the candidate is, in `unit`; below 0 it is better; ``None`` without a metric.
    drop_ci : interval of the drop at the level `confidence`; ``None`` without a metric, and where there is none.
    confidence : level of the intervals, 0..1.
    p_value : exact McNemar test for 0/1 scores, else ``None``.
    discordant : samples that exactly one of the two gets right; ``None`` unless scores are 0/1.
    lost : those of them that only the reference gets right.
    n_to_resolve : samples that would be about enough to decide `max_drop`; ``None`` without that limit, and where it
        is not known.
    sample_weight : the most that one sample can change a score, in `unit`; ``None`` where a score has no bounds.
    agreement_pct : share of samples with the same top-1 class, 0..100; of labelled tokens with the same top token for
        an output (n, tokens, vocabulary); of words of texts, see `pytest_quant.metrics.classes`; ``None`` for others.
        Of several outputs it is the lowest.
    agreement_outputs : names of the outputs whose agreement was taken, the one with the lowest first.
    by_output : every output that could be compared, each by itself, in the order of the graph. Outputs have scales
        of their own, and one sum over all of them would hide the small ones.
    sqnr_db : signal to quantization noise in dB, the lowest of all outputs that differ; ``None`` where one of them has
        none. This and the next four are of the output, or its groups, that the mark names as ``output``, if it does.
    cosine : cosine similarity, the lowest of all outputs that differ; ``None`` where one of them has none.
    max_abs_error : largest difference of two values, in any output; ``None`` where all are text.
    max_abs_error_sample : index of the sample that shows it.
    worst_output : the one with the lowest SQNR, or with none; ``None`` when all are identical.
    chance : the most that answers score without a look at the samples, in `unit`: the commonest label and one sample
        more, or the reference's answers in another order and three standard deviations of luck; ``None`` where that is
        not known.
    candidate_chance : the same with the candidate's answers.
    skill_lost : whether the reference's classes are right more often than by luck, and the candidate's are not; of any
        metric whose labels are class indices.
    kl : mean KL(softmax r || softmax c) in nats for classifiers, and over labelled tokens; else ``None``.
    worst_class : the class that lost most; ``None`` where none lost, and where the metric is not about classes.
    faults : outputs that could not be compared, or that are constant where the reference's are not; not empty is a
        failure.
    identical : every output equal in value, or the named one, and none at fault.
    simulated : the candidate's numbers come from a float simulation.
    reference_correct : for 0/1 scores, which samples the reference gets right: packed bits, deflated, base64.
    candidate_correct : for 0/1 scores, which samples the candidate gets right, in the same form.
    candidate_scores : the candidate's score of each sample in `unit`, for scores other than 0/1 that are means over
        at most 10 000 samples: float32, little-endian, deflated, base64.
    by_class : for the metric top1, each class with samples, by its label; empty for other metrics, and where more
        than 1000 classes have samples.
    agreement_chance : the most that answers in the shares of these two agree by luck, three standard deviations of it
        included, 0..100; ``None`` when no output is (n, classes).
    commonest_pct : share of samples with the reference's commonest answer, 0..100, which one answer to everything
        agrees with; ``None`` when no output is (n, classes).
    varies : another run may give other scores, so that limits on them are judged on the interval.
    reference_runs, candidate_runs : of scores that were given, runs of each side without copies; ``None`` for engines.
    candidate_missing : of scores that were given, samples that only the candidate lacks and that are left out of both
        sides; ``None`` for engines.
    run_sd : standard deviation of the score of a run within its side, in `unit`; ``None`` for single runs.
    assumed_run_sd : that of runs whose noise nothing shows, in `unit`, for which a FAIL allows; ``None`` where it is
        known, or a repeated run gives the same scores.
    by_task : each task of several; empty for one.
    by_label, by_group : each label and each group, where `max_drop` limits them.
    by_head : each output that has a metric of its own.
    candidate_ci : interval of the candidate's own score at the level `confidence`; ``None`` as for `drop_ci`.
    changed : samples whose class differs, the nearest to the reference's decision first, at most 20; of outputs
        (n, classes), the first of them.
    note : why the metric gave no score, or why the interval of the drop is missing or of fewer resamples than usual.
    """

    n: Count
    metric: str | None = None
    unit: str | None = None
    better: Better | None = None
    reference: float | None = None
    candidate: float | None = None
    drop: float | None = None
    drop_ci: Interval | None = None
    confidence: Annotated[float, ("exclusiveMinimum", 0), ("exclusiveMaximum", 1)] = 0.95
    p_value: Probability | None = None
    discordant: Count | None = None
    lost: Count | None = None
    n_to_resolve: Count | None = None
    agreement_pct: Percent | None = None
    sqnr_db: float | None = None
    cosine: float | None = None
    max_abs_error: float | None = None
    max_abs_error_sample: Count | None = None
    by_output: tuple[OutputError, ...] = field(default=(), repr=False)
    worst_output: str | None = None
    chance: float | None = None
    kl: float | None = None
    worst_class: WorstClass | None = None
    faults: tuple[OutputFault, ...] = ()
    reference_correct: str | None = field(default=None, repr=False)
    candidate_correct: str | None = field(default=None, repr=False)
    identical: bool = False
    simulated: bool = False
    sample_weight: float | None = None
    candidate_scores: str | None = field(default=None, repr=False)
    by_class: tuple[ClassScore, ...] = field(default=(), repr=False)
    agreement_chance: Percent | None = None
    commonest_pct: Percent | None = None
    varies: bool = False
    reference_runs: Count | None = None
    candidate_runs: Count | None = None
    candidate_missing: Count | None = None
    run_sd: float | None = None
    assumed_run_sd: float | None = None
    by_task: tuple[TaskScore, ...] = field(default=(), repr=False)
    by_label: tuple[TaskScore, ...] = field(default=(), repr=False)
    by_group: tuple[TaskScore, ...] = field(default=(), repr=False)
    by_head: tuple[TaskScore, ...] = field(default=(), repr=False)
    agreement_outputs: tuple[str, ...] = ()
    candidate_ci: Interval | None = None
    changed: tuple[ChangedAnswer, ...] = field(default=(), repr=False)
    candidate_chance: float | None = None
    skill_lost: bool = False
    n_different: Count | None = None
    note: str = ""

    @property
    def flips(self) -> str:
        """``lost 12, won 9``, answers that only one of the two gets right; empty unless scores are 0/1."""
        if self.discordant is None or self.lost is None:
            return ""
        return f"lost {self.lost}, won {self.discordant - self.lost}"


@dataclass(frozen=True, slots=True)
class SelfDifference:
    """How far two runs of one engine over the same batch lie apart; all zero for a deterministic engine.

    Attributes
    ----------
    engine : its id, ``ort-fp32``; of a module the name of the model.
    n : samples of the batch.
    relative : largest ||one - other|| / ||one|| of an output; infinite where shapes, integers or NaN differ.
    top1_pct : samples whose largest score is that of another class, 0..100; ``None`` where no output is (n, classes).
    how : that difference in words.
    keeps_state : a run depends on those before it, and not on chance.
    """

    engine: str = ""
    n: int = 0
    relative: float = 0.0
    top1_pct: float | None = None
    how: str = ""
    keeps_state: bool = False

    @property
    def words(self) -> str:
        """Return it as a sentence, with the remedy for what keeps state."""
        if self.keeps_state:
            remedy = "write Model.from_torch(..., reset=fn), or let a function begin anew with each batch"
            return f"{self.engine} keeps state, so that the order of the samples decides its outputs: {remedy}"
        top1 = "" if self.top1_pct is None else f", and in the top-1 class of {self.top1_pct:.3g} % of {self.n} samples"
        return f"{self.engine} is nondeterministic: for two runs of the same batch {self.how}{top1}"
