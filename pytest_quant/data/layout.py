"""The batch axis of each input, and the shapes of the samples.

Data is kept with the samples on axis 0, whatever the model takes; a `Layout` moves that axis to the model's own.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pytest_quant.data.batch import Feeds
from pytest_quant.errors import DataError
from pytest_quant.spec import Shape, Signature, TensorInfo

_BATCH = re.compile(r"(n|b|bs|bsz|[a-z0-9_.]*batch[a-z0-9_.]*)", re.IGNORECASE)
_STEPS = re.compile(r"(t|.*(time|seq|len|frame|step).*)", re.IGNORECASE)
"""Names that exporters and people give to a batch axis, and to a time axis."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The batch axis of each input of a model.

    Attributes
    ----------
    axes : batch axis of the model's input by input name; ``None`` for an input without one.
    fixed_batch_size : the size of these axes where the graph fixes it, else ``None``.
    stepped : inputs whose samples have a leading time axis that the model's input does not have.
    """

    axes: Mapping[str, int | None]
    fixed_batch_size: int | None = None
    stepped: frozenset[str] = field(default_factory=frozenset)

    @property
    def whole(self) -> frozenset[str]:
        """Inputs without a batch axis, which take one value for all samples of a run."""
        return frozenset(name for name, axis in self.axes.items() if axis is None)

    def arrange(self, feeds: Feeds) -> Feeds:
        """Return one batch as the model takes it: samples on the model's batch axis, steps on axis 0.

        `feeds` holds arrays (samples, ...) or (samples, steps, ...) by input name, and one value for inputs in `whole`.
        """
        along = {name: self._along(name) for name in feeds}
        # Only where the axis moves: `ascontiguousarray` would give a scalar an axis.
        moved = {name: np.ascontiguousarray(np.moveaxis(feeds[name], 0, axis)) for name, axis in along.items() if axis}
        return feeds | moved

    def samples(self, feeds: Feeds, rows: Sequence[int]) -> Feeds:
        """Return the samples at the indices `rows` of a batch that `arrange` returned."""
        along = {name: axis for name in feeds if (axis := self._along(name)) is not None}
        return feeds | {name: np.ascontiguousarray(np.take(feeds[name], rows, axis)) for name, axis in along.items()}

    def _along(self, name: str) -> int | None:
        """Return the axis of samples in a batch of an input, behind the axis of steps; ``None`` without it."""
        axis = self.axes[name]
        return None if axis is None else axis + (name in self.stepped)


def find_layout(
    signature: Signature,
    named: Mapping[str, int | None],
    ranks: Mapping[str, int],
    *,
    where: str,
    states: frozenset[str] = frozenset(),
) -> Layout:
    """Return the batch axis of each input that the data provides.

    Parameters
    ----------
    signature : inputs and outputs of the model.
    named : batch axes that the user names, by input or output name.
    ranks : number of axes of the data's array by input name, the sample axis included where it has one.
    where : name of the data in messages.
    states : inputs that receive an output of the step before; where there are any, samples are sequences.

    Raises
    ------
    DataError : an input does not have the axis that the user names, or inputs fix different batch sizes.
    """
    inputs = [tensor for tensor in signature.inputs if tensor.name in ranks]
    symbol = _batch_symbol(inputs)
    free = any(_is_free(tensor, symbol, named) for tensor in inputs)
    named_first = sorted(inputs, key=lambda tensor: tensor.name not in named)
    likely = _fixed_sizes(named_first, {tensor.name: named.get(tensor.name, 0) for tensor in inputs})
    fixed = next(iter(likely.values()), None)
    axes: dict[str, int | None] = {}
    stepped: set[str] = set()
    for tensor in inputs:
        steps = bool(states) and tensor.name not in states
        if tensor.name in named:
            # Of a tensor of any rank the data has the rank, and the steps of sequences are no axis of the model's.
            rank = ranks[tensor.name] - steps if tensor.shape is None else len(tensor.shape)
            axes[tensor.name] = _check_axis(tensor.name, named[tensor.name], rank, where)
        elif free:
            axes[tensor.name] = _free_axis(tensor, symbol)
        else:
            whole = tensor.shape is not None and ranks[tensor.name] > len(tensor.shape) and not states
            axes[tensor.name] = 0 if tensor.shape and tensor.shape[0] == fixed and not whole else None
        # An input that is the same in all steps has one axis fewer.
        added = 2 if axes[tensor.name] is None else 1
        if steps and (tensor.shape is None or ranks[tensor.name] == len(tensor.shape) + added):
            stepped.add(tensor.name)
    return Layout(axes, _only_size(inputs, axes, where), frozenset(stepped))


def fixed_batch_size(signature: Signature, axes: Mapping[str, int | None]) -> int | None:
    """Return the batch size that the graph fixes, ``None`` if it is free; `axes` are batch axes by input name."""
    return next(iter(_fixed_sizes(signature.inputs, axes).values()), None)


def _fixed_sizes(inputs: Sequence[TensorInfo], axes: Mapping[str, int | None]) -> dict[str, int]:
    """Return the sizes of the batch axes that the graph fixes, by input name."""
    sizes: dict[str, int] = {}
    for tensor in inputs:
        axis = axes.get(tensor.name)
        size = tensor.shape[axis] if tensor.shape and axis is not None and axis < len(tensor.shape) else None
        if size is not None:
            sizes[tensor.name] = size
    return sizes


def _batch_symbol(inputs: list[TensorInfo]) -> str:
    """Return the symbolic name of the batch axis, empty when no axis has a name that could be it."""
    called = [name for tensor in inputs for name in tensor.symbols if _BATCH.fullmatch(name)]
    leading = [tensor.symbols[0] for tensor in inputs if tensor.symbols]
    others = [name for name in leading if name and not _STEPS.fullmatch(name)]
    return next(iter(called + others), "")


def _free_axis(tensor: TensorInfo, symbol: str) -> int | None:
    """Return the batch axis of an input in a graph with a free batch size, ``None`` if its leading size is fixed."""
    if tensor.shape is None:
        return 0
    if symbol and symbol in tensor.symbols:
        return tensor.symbols.index(symbol)
    return 0 if tensor.shape and tensor.shape[0] is None else None


def _is_free(tensor: TensorInfo, symbol: str, named: Mapping[str, int | None]) -> bool:
    """Whether the graph leaves the batch size of an input free, on the axis that the user names if any."""
    if tensor.name not in named:
        return _free_axis(tensor, symbol) is not None
    axis = named[tensor.name]
    return axis is not None and (tensor.shape is None or (axis < len(tensor.shape) and tensor.shape[axis] is None))


def _check_axis(name: str, axis: int | None, rank: int, where: str) -> int | None:
    if axis is not None and axis >= rank:
        raise DataError(
            f"{where}: batch_axes names an axis that input '{name}' does not have",
            value=f"axis {axis} of {rank}",
            allowed=f"0 to {rank - 1}, or None" if rank else "None: it is a scalar",
            fix=f"write batch_axes={{'{name}': {0 if rank else None}}}",
        )
    return axis


def _only_size(inputs: list[TensorInfo], axes: Mapping[str, int | None], where: str) -> int | None:
    sizes = _fixed_sizes(inputs, axes)
    if len(set(sizes.values())) > 1:
        raise DataError(
            f"{where}: the inputs of the model differ in the number of samples that they fix",
            value=", ".join(f"'{name}': {size}" for name, size in sizes.items()),
            fix="say which axis counts samples, None if no axis does: "
            f"Model.from_onnx(path, batch_axes={dict.fromkeys(sizes) | {next(iter(sizes)): axes[next(iter(sizes))]}})",
        )
    return next(iter(sizes.values()), None)


@dataclass(frozen=True, slots=True)
class SampleShapes:
    """Shapes of one input over all samples, without a batch axis.

    Attributes
    ----------
    smallest, largest : extremes of each axis; no single sample need have all of them at once.
    commonest : this input's shape in the commonest combination of input shapes.
    """

    smallest: Shape
    commonest: Shape
    largest: Shape


SampleKind = tuple[tuple[str, Shape], ...]
"""The shapes of all inputs of one sample, by name."""


def find_shapes(kinds: Counter[SampleKind]) -> dict[str, SampleShapes]:
    """Return the shapes by input name, without inputs whose samples differ in rank, from the number of each kind.

    Inputs are counted together, because the commonest shapes of each input alone may belong to different samples, and
    a network whose inputs share an axis cannot run on such a mixture. Of several equally common kinds the one with the
    median number of elements is the commonest.
    """
    most = max(kinds.values(), default=0)
    of_kind = {kind: sum(math.prod(shape) for _, shape in kind) for kind, n in kinds.items() if n == most}
    common = sorted(of_kind, key=of_kind.__getitem__)
    ranges: dict[str, SampleShapes] = {}
    for name, commonest in common[len(common) // 2] if common else ():
        shapes = [shape for kind in kinds for other, shape in kind if other == name]
        if len(set(map(len, shapes))) == 1:
            columns = list(zip(*shapes, strict=True))
            ranges[name] = SampleShapes(tuple(map(min, columns)), commonest, tuple(map(max, columns)))
    return ranges
