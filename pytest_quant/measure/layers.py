"""Layers of both engines of a check, by the time they take, each engine alone on its device."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from pytest_quant.backends.readback import LayerTime
from pytest_quant.errors import UsageError
from pytest_quant.measure.bench import Measurement
from pytest_quant.measure.build import Tools
from pytest_quant.measure.sessions import TimingSubject


@dataclass(frozen=True, slots=True)
class SideLayers:
    """One engine of a check.

    Attributes
    ----------
    engine : its id, ``ort-int8-static``, and for a reference at another precision that.
    provider : where it runs, in the runtime's words.
    run_ms : median milliseconds of a whole run as it is timed, without a profiler; ``None`` where it was not timed.
    layers : in the order they run; empty where the backend does not tell them.
    """

    engine: str
    provider: str
    run_ms: float | None
    layers: tuple[LayerTime, ...]


@dataclass(frozen=True, slots=True)
class LayerProfile:
    """The layers of a check.

    Attributes
    ----------
    nodeid : of the test.
    model : name of the model.
    batch_size : samples in one run.
    untimed : why no whole run was timed; empty where it was.
    """

    nodeid: str
    model: str
    batch_size: int
    reference: SideLayers
    candidate: SideLayers
    untimed: str = ""


def profile_layers(measurement: Measurement, tools: Tools) -> LayerProfile:
    """Time the layers of both engines of a check, in the sessions and over the batch that their latency is of.

    Parameters
    ----------
    measurement : the check, measured.
    tools : the messages to the user.

    Raises
    ------
    UsageError : neither backend tells the times of layers.
    QuantError : an engine cannot be opened or run, or a device was not free in time.
    """
    check, latency = measurement.check, measurement.latency
    if measurement.bench is None:
        raise UsageError("this measurement keeps nothing to run again", fix="take one that was just measured")
    reference, candidate = measurement.bench.timed
    with tools.locks.exclusive(reference.device, candidate.device):
        sides = (
            _side(reference, _name(reference), None if latency is None else latency.reference_p50_ms, tools),
            _side(candidate, candidate.built.spec.id, None if latency is None else latency.candidate_p50_ms, tools),
        )
    if not any(side.layers for side in sides):
        names = " and ".join(sorted({reference.built.spec.backend, candidate.built.spec.backend}))
        raise UsageError(
            f"{names} cannot tell the times of layers",
            value=check.nodeid,
            allowed="a backend whose runtime has a profiler of layers, see: pytest-quant guide failures",
            fix="name another backend in the mark, or use the profiler of that runtime itself",
        )
    return LayerProfile(
        check.nodeid,
        check.candidate.model.name,
        check.batch_size if latency is None else latency.batch_size,
        *sides,
        untimed=check.latency_off if latency is None else "",
    )


def _name(reference: TimingSubject) -> str:
    """Return the id of the engine that latency is compared with, and its precision where that is not in the id."""
    spec = reference.built.spec
    return spec.id if reference.precision in spec.id else f"{spec.id} at {reference.precision}"


def _side(subject: TimingSubject, name: str, run_ms: float | None, tools: Tools) -> SideLayers:
    with ExitStack() as opened, tools.steps.show(f"profiling {name} of {subject.built.spec.model.name}"):
        engine = subject.open(opened)
        return SideLayers(name, engine.provider, run_ms, engine.layer_times(subject.feeds))
