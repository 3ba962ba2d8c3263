"""The network under test, before any backend has touched it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_quant.errors import UsageError
from pytest_quant.spec.axes import BatchAxes, read_batch_axes


@dataclass(frozen=True, slots=True)
class Model:
    """A network to quantize or one that already is: an ONNX file, or a torch module.

    Attributes
    ----------
    name : what tables and histories call it; never a digest.
    path : the ONNX file, external data beside it; ``None`` for a torch module.
    module, example_inputs : a ``torch.nn.Module`` and one tuple of inputs for it.
    dynamic : which axes of a module's inputs are free: ``True`` the leading one of each, ``False`` none, or
        a tuple of axes by the input's name, ``(("ids", (0, 1)), ...)``.
    batch_axes : axes that count samples, by the name of an input or an output, where they are not found right.
    state : outputs that are fed back, ``(("h_out", "h_in"), ...)``: the model makes one step of a sequence, and a
        sample is a whole one.
    """

    name: str
    path: Path | None = None
    module: object | None = field(default=None, compare=False, repr=False)
    example_inputs: object | None = field(default=None, compare=False, repr=False)
    dynamic: bool | tuple[tuple[str, tuple[int, ...]], ...] = True
    batch_axes: BatchAxes = ()
    state: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_onnx(
        cls,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        batch_axes: Mapping[str, int | None] | None = None,
        state: Mapping[str, str] | None = None,
    ) -> Model:
        """Name an ONNX file; it is read when an engine is built, not now.

        Parameters
        ----------
        batch_axes : the axis that counts samples, ``{"state": 1}``, by the name of an input or an output; ``None``
            for one that has no such axis. Only for what is not found right.
        state : the input that takes an output in the next step, ``{"h_out": "h_in"}``. A sample of any other input
            then leads with an axis of steps, (steps, ...), the first step starts from zeros, and every output is
            that of all steps. `Dataset` may give another start as an input of that name.
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
    ) -> Model:
        """Name a ``torch.nn.Module`` together with one tuple of inputs that it accepts.

        Parameters
        ----------
        dynamic : which axes of the inputs are free: the leading one of each (``True``), none (``False``), or
            those named, ``{"ids": (0, 1)}``; an input that is not named has none.
        batch_axes, state : as in `from_onnx`.
        """
        free = dynamic if isinstance(dynamic, bool) else tuple((key, tuple(axes)) for key, axes in dynamic.items())
        return cls(
            name=name or type(module).__name__,
            module=module,
            example_inputs=example_inputs,
            dynamic=free,
            batch_axes=read_batch_axes("Model", batch_axes),
            state=_read_state(state),
        )


def _read_state(given: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Return `given` as pairs of an output and an input. Raises `UsageError` when it is anything else."""
    if given is None:
        return ()
    if isinstance(given, Mapping) and all(isinstance(name, str) for pair in given.items() for name in pair):
        pairs = tuple(given.items())
        if len({taken for _, taken in pairs}) == len(pairs):
            return pairs
    raise UsageError(
        "Model: state tells which input takes which output in the next step",
        value=repr(given),
        allowed="a dict of output name to input name, each input once",
        fix="write state={'h_out': 'h_in'}",
    )
