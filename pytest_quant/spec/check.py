"""One check, whole: what one marked test asks for."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_quant.spec.channels import ChannelGroup
from pytest_quant.spec.dataset import Dataset
from pytest_quant.spec.engine import EngineSpec
from pytest_quant.spec.latency import LatencyPlan
from pytest_quant.spec.limits import Limits


@dataclass(frozen=True, slots=True)
class Check:
    """Candidate, reference, data and limits of one marked test.

    Attributes
    ----------
    nodeid : the test, as pytest spells it.
    series_nodeid : the same without what our own lists add to it.
    metric : a metric's name, a ``Metric``, or ``None`` for the default.
    output : the output that the metric reads and limits on tensors are for; ``None`` for the first, and for all.
    channels : groups of channels that are judged as outputs of their own, in place of the outputs they are of.
    batch_size : samples in one timed run, as the mark asks; part of the series also when latency is off.
    eval_batch_size : samples in one batch of the evaluation; ``None`` lets the model decide.
    latency : ``None`` when latency is not to be measured.
    latency_off : why it is not, in words; empty when it is.
    confidence : ask for proof at this level; ``None`` judges accuracy on the point estimate.
    """

    nodeid: str
    series_nodeid: str
    candidate: EngineSpec
    reference: EngineSpec
    dataset: Dataset
    limits: Limits = field(default_factory=Limits)
    metric: object | None = None
    output: str | None = None
    channels: tuple[ChannelGroup, ...] = ()
    eval_batch_size: int | None = None
    latency: LatencyPlan | None = field(default_factory=LatencyPlan)
    latency_off: str = ""
    confidence: float | None = None
    batch_size: int = 1
