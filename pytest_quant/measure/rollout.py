"""A model of one step, run over whole sequences: its state outputs are fed into the next step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends import Engine, Feeds, Outputs
from pytest_quant.backends.readback import LayerTime
from pytest_quant.errors import DataError, ModelError, nearest
from pytest_quant.result import Coverage, DeviceTimes

_ONE_STEP = "what is timed and read back is one step of a sequence"


class Rollout(Engine):
    """An engine that takes sequences: inputs have a leading time axis (steps, ...), and each step is one run.

    Outputs get a time axis after their first one, so that (samples, ...) becomes (samples, steps, ...). Only the first
    step is timed and read back. An input that is given without a time axis is the same in all steps.

    Parameters
    ----------
    engine : runs one step.
    state : pairs of an output and the input that receives it in the next step. That input starts from zeros, or from
        the array of its name in the feeds.

    Raises
    ------
    ModelError : the model has no such output or input.
    """

    def __init__(self, engine: Engine, state: tuple[tuple[str, str], ...]) -> None:
        self._engine = engine
        self._state = state
        self._tensors = {tensor.name: tensor for tensor in engine.signature.inputs}
        self.spec, self.signature = engine.spec, engine.signature
        self.provider, self.simulated = engine.provider, engine.simulated
        self.size_bytes, self.device_bytes = engine.size_bytes, engine.device_bytes
        self.threads, self.plan_of, self.branches = engine.threads, engine.plan_of, engine.branches
        self.notes = (*engine.notes, _ONE_STEP)
        outputs = {tensor.name for tensor in engine.signature.outputs}
        for output, taken in state:
            _check_name(output, outputs, "output")
            _check_name(taken, self._tensors, "input")

    def _misfit(self, feeds: Feeds) -> None:
        """Leave it to the engine of one step, which is given what it takes."""

    def _run(self, feeds: Feeds) -> Outputs:
        """Run one batch of equally long sequences. Raises `DataError` when they do not fit the model."""
        runs = [outputs for _, outputs in self._run_steps(feeds)]
        self.notes = (*self._engine.notes, _ONE_STEP)
        return {name: np.stack([run[name] for run in runs], axis=min(1, runs[0][name].ndim)) for name in runs[0]}

    def steps(self, batches: Iterator[Feeds]) -> Iterator[Feeds]:
        """Yield the inputs of every step of every batch, states included, as calibration feeds."""
        for feeds in batches:
            self._check(feeds)
            yield from (inputs for inputs, _ in self._run_steps(feeds))

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        return self._engine.prepare(self._first(feeds))

    def _prepare_events(self, feeds: Feeds) -> Callable[[], float] | None:
        return self._engine.prepare_events(self._first(feeds))

    def _coverage(self, feeds: Feeds) -> Coverage:
        return self._engine.coverage(self._first(feeds))

    def _coverage_over(self, batches: Sequence[Feeds]) -> Coverage:
        return self._engine.coverage(*map(self._first, batches))

    def _excluded_among(self, names: Collection[str]) -> tuple[str, ...]:  # noqa: ARG002
        """Return nothing: the engine of one step has looked already, by names that it knows."""
        return ()

    def _device_times(self, feeds: Feeds) -> DeviceTimes | None:
        return self._engine.device_times(self._first(feeds))

    def _layer_times(self, feeds: Feeds) -> tuple[LayerTime, ...]:
        return self._engine.layer_times(self._first(feeds))

    def _close(self) -> None:
        self._engine.close()

    def _run_steps(self, feeds: Feeds) -> Iterator[tuple[Feeds, Outputs]]:
        now = self._first(feeds)
        for step in range(self._length(feeds)):
            now |= {name: feeds[name][step, ...] for name in self._stepped(feeds)}
            outputs = self._engine.run(now)
            yield dict(now), outputs
            now |= {taken: outputs[output] for output, taken in self._state}

    def _first(self, feeds: Feeds) -> Feeds:
        """Return the inputs of the first step."""
        self._length(feeds)
        now = {name: array[0, ...] if name in self._stepped(feeds) else array for name, array in feeds.items()}
        return now | {taken: self._zeros(taken, now) for _, taken in self._state if taken not in now}

    def _stepped(self, feeds: Feeds) -> list[str]:
        """Return the names of inputs with a time axis: with one axis more than the model's."""
        shapes = {name: tensor.shape for name, tensor in self._tensors.items()}
        return [
            name for name, array in feeds.items() if (shape := shapes.get(name)) is not None and array.ndim > len(shape)
        ]

    def _length(self, feeds: Feeds) -> int:
        lengths = {name: len(feeds[name]) for name in self._stepped(feeds)}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            raise DataError(
                f"the sequences of {self.spec.model.name} have no one length",
                value=", ".join(f"'{name}': {n} steps" for name, n in lengths.items()) or "no input leads with steps",
                allowed="samples (steps, ...), as many steps in each input, and at least one",
                fix="put the steps in front of what the model takes in one step",
            )
        return next(iter(lengths.values()))

    def _zeros(self, name: str, now: Feeds) -> NDArray[Any]:
        """Return zeros as the start of a state that the feeds do not contain: one free size is the batch's."""
        tensor = self._tensors[name]
        shape = tensor.shape or ()
        led = [array for key, array in now.items() if (self._tensors[key].shape or (1,))[0] is None]
        if shape.count(None) > (1 if led else 0):
            raise DataError(
                f"the start of state '{name}' has an unknown size",
                value=f"shape {shape}, whose only free size is the batch",
                fix=f"give the start as an input of that name, {{'{name}': np.zeros(...)}}",
            )
        return np.zeros([led[0].shape[0] if size is None else size for size in shape], tensor.dtype)


def _check_name(name: str, available: Collection[str], what: str) -> None:
    if name not in available:
        raise ModelError(
            f"state= names an {what} that the model does not have", value=repr(name), allowed=nearest(name, available)
        )
