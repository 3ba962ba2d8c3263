"""The network under test as the user describes it: its source, inputs, outputs and batch axes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pytest_quant.errors import UsageError
from pytest_quant.readers import count

BatchAxes: TypeAlias = tuple[tuple[str, int | None], ...]
"""Pairs of the name of an input or an output and its batch axis; ``None`` for one without a batch axis."""


def read_batch_axes(owner: str, given: Mapping[str, int | None] | None) -> BatchAxes:
    """Return `given` as pairs. Raises `UsageError` for anything but a dict of axes; `owner` names the class there."""
    if given is None:
        return ()
    axis = count(0)
    if not isinstance(given, Mapping) or not all(
        isinstance(name, str) and (at is None or axis.form(name, at) is not None) for name, at in given.items()
    ):
        raise UsageError(
            f"{owner}: batch_axes is a dict by the name of an input or output",
            value=repr(given),
            allowed="for each the number of an axis from 0, or None for one that no axis of counts samples",
            fix="write batch_axes={'state': 1}",
        )
    return tuple(given.items())


@dataclass(frozen=True, slots=True)
class ChannelGroup:
    """A range of channels of an output, judged as an output of its own.

    Attributes
    ----------
    output, group : name of the output in the graph, and name of the channels in the mark.
    axis : the axis of the channels in the output (n, ...), whose axis 0 is the sample; never 0.
    first, end : the first channel, and the one after the last; ``None`` for all remaining ones.
    """

    output: str
    group: str
    axis: int
    first: int
    end: int | None

    @property
    def name(self) -> str:
        """Name in limits and messages, ``output0.scores``."""
        return f"{self.output}.{self.group}"


Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class InputShapes:
    """The shapes that one input has over all runs of a check, the batch axis included.

    Attributes
    ----------
    name : of the input in the engine's own graph.
    smallest, largest : extremes of each axis; no single run need have all of them at once.
    usual : of the commonest sample at the batch size that is timed.
    batch_axis : ``None`` where the graph fixes the batch size or the input has no batch axis.
    """

    name: str
    smallest: Shape
    usual: Shape
    largest: Shape
    batch_axis: int | None = 0


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One input or output of a model.

    Attributes
    ----------
    name : in the graph.
    dtype : numpy's name of the element type, for example ``"float32"`` or ``"int64"``.
    shape : size of each axis, ``None`` where it is free; ``None`` in place of the tuple when the rank is unknown.
    symbols : the graph's name of each axis whose size is free; empty text for an axis without one.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None
    symbols: tuple[str, ...] = field(default=(), compare=False)

    @property
    def free_axes(self) -> tuple[int, ...]:
        """The axes whose sizes are free; none if the rank is unknown."""
        return tuple(axis for axis, size in enumerate(self.shape or ()) if size is None)


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs and outputs of a model, in the graph's order."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """A float or quantized network: an ONNX file, a torch module, or a function that runs one.

    Attributes
    ----------
    name : of the model in tables and histories; never a digest.
    path : the ONNX file, with external data in the same folder; ``None`` for a torch module or a function.
    module, example_inputs : a ``torch.nn.Module`` and one tuple of inputs for it.
    reset : called with a copy of the module before each run, for one that keeps state between runs.
    dynamic : free axes of a module's inputs: ``True`` the leading one of each, ``False`` none, or a tuple of axes for
        each input's name, ``(("ids", (0, 1)), ...)``.
    batch_axes : batch axes by the name of an input or an output, where they are not detected correctly.
    state : outputs that are fed back, ``(("h_out", "h_in"), ...)``: a run of the model is one step of a sequence, and
        a sample is a whole sequence.
    signature : inputs and outputs of a module that another process has; its built engines open here without it. Of a
        function, those that the data has.
    call : the function, which takes a batch and returns its outputs.
    version : what tells the function from another one of its name; empty where nothing does.
    streams : the function gives the tokens of one text, one after the other.
    """

    name: str
    path: Path | None = None
    module: object | None = field(default=None, compare=False, repr=False)
    example_inputs: object | None = field(default=None, compare=False, repr=False)
    dynamic: bool | tuple[tuple[str, tuple[int, ...]], ...] = True
    batch_axes: BatchAxes = ()
    state: tuple[tuple[str, str], ...] = ()
    signature: Signature | None = field(default=None, compare=False, repr=False)
    call: Callable[[Any], object] | None = field(default=None, compare=False, repr=False)
    version: str = ""
    streams: bool = False
    reset: Callable[[Any], object] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_onnx(
        cls,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        batch_axes: Mapping[str, int | None] | None = None,
        state: Mapping[str, str] | None = None,
    ) -> Model:
        """Describe an ONNX file; it is read when an engine is built, not now.

        Parameters
        ----------
        path : of the file.
        name : of the model in tables and histories; by default the file's name without its ending.
        batch_axes : the batch axis by the name of an input or an output, ``{"state": 1}``; ``None`` for one without a
            batch axis. Needed only where it is not detected correctly.
        state : the input that receives an output in the next step, ``{"h_out": "h_in"}``. Samples of the other inputs
            then have a leading time axis, (steps, ...), the first step starts from zeros, and every output has the
            values of all steps. The `Dataset` may contain another initial state as an input of that name.

        Raises
        ------
        UsageError : `batch_axes` or `state` is no such dict.
        """
        file = Path(path)
        axes = read_batch_axes("Model", batch_axes)
        return cls(name=name or file.stem, path=file, batch_axes=axes, state=_read_state(state))

    @classmethod
    def from_torch(
        cls,
        module: object,
        example_inputs: object,
        *,
        dynamic: bool | Mapping[str, Sequence[int]] = True,
        name: str | None = None,
        batch_axes: Mapping[str, int | None] | None = None,
        state: Mapping[str, str] | None = None,
        reset: Callable[[Any], object] | None = None,
    ) -> Model:
        """Describe a ``torch.nn.Module``.

        Parameters
        ----------
        module : the module.
        example_inputs : one tuple of inputs that it accepts.
        dynamic : free axes of the inputs: the leading one of each (``True``), none (``False``), or those named,
            ``{"ids": (0, 1)}``; an input that is not named has none.
        name : of the model in tables and histories; by default the module's class.
        batch_axes, state : as in `from_onnx`.
        reset : called with the module before each sample, for modules that keep state in attributes or buffers, as
            ``lambda module: module.hidden.zero_()``. It is traced with the module, so that exported files and compiled
            programs do the same; what it returns is ignored.

        Raises
        ------
        UsageError : `batch_axes` or `state` is no such dict, or `reset` cannot be called.
        """
        if reset is not None and not callable(reset):
            raise UsageError("Model: reset is called with the module", value=repr(reset), allowed="a function")
        free = dynamic if isinstance(dynamic, bool) else tuple((key, tuple(axes)) for key, axes in dynamic.items())
        return cls(
            name=name or type(module).__name__,
            module=module,
            example_inputs=example_inputs,
            dynamic=free,
            batch_axes=read_batch_axes("Model", batch_axes),
            state=_read_state(state),
            reset=reset,
        )

    @classmethod
    def from_callable(
        cls, call: Callable[[Any], object], *, version: str = "", name: str | None = None, streams: bool = False
    ) -> Model:
        """Describe a function that runs a model, or asks a server that does, for ``backend="callable"``.

        Parameters
        ----------
        call : ``call(batch) -> outputs``. A batch is an array (n, ...), a list of n texts where the samples are texts,
            or a dict of these where the data is one. Outputs are an array (n, ...), a list of n texts, or a dict of
            these by output name; axis 0 is the sample.
        version : what changes whenever its outputs may: of the weights and of the server, say. Without one nothing
            that it returns is kept for later runs.
        name : of the model in tables and histories; by default the function's.
        streams : `call` is given batches of one sample, and returns an iterator of texts, the tokens. The output is
            what they are together; the first one and those after it are timed apart.

        Raises
        ------
        UsageError : `call` cannot be called, or `version` is no text.
        """
        if not callable(call) or not isinstance(version, str):
            raise UsageError(
                "Model.from_callable takes a function and the text of its version",
                value=f"{type(call).__name__}, version={version!r}",
                fix="write Model.from_callable(generate, version='weights of 2024-05-01')",
            )
        own = getattr(call, "__name__", type(call).__name__)
        # A name that says nothing, in whose place the fixture's is taken.
        return cls(name=name or ("model" if own == "<lambda>" else own), call=call, version=version, streams=streams)


def _read_state(given: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Return `given` as pairs of an output and an input. Raises `UsageError` for anything but such a dict."""
    if given is None:
        return ()
    if isinstance(given, Mapping) and all(isinstance(name, str) for pair in given.items() for name in pair):
        pairs = tuple(given.items())
        if len({taken for _, taken in pairs}) == len(pairs):
            return pairs
    raise UsageError(
        "Model: state says which input takes which output in the next step",
        value=repr(given),
        allowed="a dict of output name to input name, each input once",
        fix="write state={'h_out': 'h_in'}",
    )
