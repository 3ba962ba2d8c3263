"""Batches: samples converted to arrays, stacked, and their labels as canonical bytes.

In the encoding every value is a byte for its type, the length of its content (eight bytes, little-endian) and the
content, so that no two contents share an encoding. The keys of a dict are sorted by their own encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_quant.errors import DataError

Feeds: TypeAlias = dict[str, NDArray[Any]]
"""Inputs of one run by name."""

Sample: TypeAlias = tuple[Feeds, NDArray[Any] | None]
"""Inputs by name without a batch axis, and the label: its numbers, or an array () that holds the object."""

_WAITING_BYTES = 64 << 20
_WAITING_BATCHES = 8
"""Caps on the samples that wait for others of their shape: their memory, and their number in batches."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples that one run of an engine takes.

    Attributes
    ----------
    feeds : arrays as the model takes them; when padded, samples from `n` on repeat the last one.
    labels : never padded; numbers of one shape as int64 or float64 (n, ...), any others as the objects that were given,
        (n,); ``None`` without labels.
    start : index of the first sample in the evaluation set.
    n : real samples.
    positions : index of each sample in the evaluation set where they are not consecutive, else ``None``.
    """

    feeds: Feeds
    labels: NDArray[Any] | None
    start: int
    n: int
    positions: tuple[int, ...] | None = None


@dataclass(slots=True)
class _Group:
    """Samples that one run can take together, copied as they arrive: an iterable may reuse its buffer."""

    rows: Feeds
    labels: list[NDArray[Any]] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)

    @property
    def sample_bytes(self) -> int:
        """Memory of one sample."""
        return sum(rows.nbytes // len(rows) for rows in self.rows.values())

    def add(self, inputs: Feeds, label: NDArray[Any] | None, position: int) -> None:
        """Copy one sample."""
        for name, row in inputs.items():
            self.rows[name][len(self.positions)] = row
        if label is not None:
            self.labels.append(deepcopy(label) if label.dtype.kind == "O" else label.copy())
        self.positions.append(position)

    def closed(self, *, pad: bool) -> Batch:
        """Return the batch; with `pad` its last sample fills it up."""
        n = len(self.positions)
        feeds = self.rows
        if pad:
            for rows in feeds.values():
                rows[n:] = rows[n - 1]
        else:
            feeds = {name: rows[:n] for name, rows in feeds.items()}
        consecutive = self.positions[-1] - self.positions[0] == n - 1
        labels = np.stack(self.labels) if self.labels else None
        return Batch(feeds, labels, self.positions[0], n, None if consecutive else tuple(self.positions))


def assemble(
    samples: Iterable[Sample], batch_size: int, *, pad: bool, whole: frozenset[str] = frozenset()
) -> Iterator[Batch]:
    """Stack samples of equal shapes, which need not follow each other.

    A batch is yielded as soon as it is full. When too many samples wait for others of their shape, the oldest group
    is yielded although it is not full, so that memory is bounded. Axis 0 of every array in the feeds is the sample.

    Parameters
    ----------
    samples : in the order of the data.
    batch_size : samples in a full batch.
    pad : fill up a batch that is not full by repeating its last sample.
    whole : inputs that take one value for all samples of a run; samples whose values differ are batched separately.
    """
    waiting: dict[object, _Group] = {}
    held = held_bytes = 0
    for position, (inputs, label) in enumerate(samples):
        alike: list[object] = [row.tobytes() if name in whole else row.shape for name, row in inputs.items()]
        key = tuple(alike)
        if key not in waiting:
            rows = {name: np.empty((batch_size, *row.shape), row.dtype) for name, row in inputs.items()}
            waiting[key] = _Group(rows)
        waiting[key].add(inputs, label, position)
        held += 1
        held_bytes += waiting[key].sample_bytes
        too_much = held_bytes > _WAITING_BYTES or held > _WAITING_BATCHES * batch_size
        if len(waiting[key].positions) == batch_size:
            ready: object = key
        elif too_much and len(waiting) > 1:
            ready = next(iter(waiting))
        else:
            continue
        held -= len(waiting[ready].positions)
        held_bytes -= len(waiting[ready].positions) * waiting[ready].sample_bytes
        yield waiting.pop(ready).closed(pad=pad)
    while waiting:
        yield waiting.pop(next(iter(waiting))).closed(pad=pad)


_ALLOWED = "text, bytes, numbers, True, False, None, numpy arrays, torch tensors, and lists, tuples and dicts of these"
_MAX_SHOWN = 80
_KINDS = "biufcMm"
_PADDED = "gG"
"""Numbers of 80 bits lie in 16 bytes, the rest of which holds anything."""


def canonical_bytes(value: object, where: str) -> bytes:
    """Return bytes that are equal for equal labels only; 1, 1.0, True and "1" differ, and so do a list and a tuple.

    A numpy scalar is encoded as the Python value it holds, a torch tensor as an array. Arrays differ by dtype and
    shape, arrays of text by shape alone. Floats are compared by their bits: 0.0 differs from -0.0, and equal NaN agree.

    Raises
    ------
    DataError : `value` contains a type that has no encoding; `where` names the label in the message.
    """
    if isinstance(value, np.generic) and value.dtype.kind in "biufUS" and value.dtype.char not in _PADDED:
        value = value.item()
    if value is None:
        return _framed(b"N", b"")
    if isinstance(value, bool):
        return _framed(b"B", b"\1" if value else b"\0")
    if isinstance(value, int):
        return _framed(b"I", b"%d" % value)
    if isinstance(value, float):
        return _framed(b"F", struct.pack("<d", value))
    if isinstance(value, str):
        return _framed(b"S", value.encode("utf-8", "surrogatepass"))
    if isinstance(value, (bytes, bytearray)):
        return _framed(b"Y", bytes(value))
    if isinstance(value, Mapping):
        pairs = [(canonical_bytes(name, where), canonical_bytes(item, where)) for name, item in value.items()]
        return _framed(b"D", b"".join(name + item for name, item in sorted(pairs)))
    if isinstance(value, (list, tuple)):
        kind = b"L" if isinstance(value, list) else b"T"
        return _framed(kind, b"".join(canonical_bytes(item, where) for item in value))
    return _array(value, where)


def _array(value: object, where: str) -> bytes:
    array: NDArray[Any] | None = value if isinstance(value, np.ndarray) else None
    tensor: Any = value
    try:
        if isinstance(value, np.generic):
            array = np.asarray(value)
        elif hasattr(value, "detach") and hasattr(value, "numpy"):
            array = np.asarray(tensor.detach().cpu().numpy())
    except (TypeError, ValueError, RuntimeError) as error:
        raise _refused(value, where, str(error)) from error
    if array is None:
        raise _refused(value, where)
    shape = str(array.shape).encode()
    if array.dtype.kind in "OUS":
        return _framed(b"O", _framed(b"", shape) + b"".join(canonical_bytes(item, where) for item in array.flat))
    if array.dtype.kind not in _KINDS or array.dtype.char in _PADDED:
        raise _refused(value, where, f"dtype {array.dtype}")
    dtype = array.dtype.newbyteorder("<")
    content = np.ascontiguousarray(array, dtype).tobytes()
    return _framed(b"A", _framed(b"", dtype.str.encode()) + _framed(b"", shape) + content)


def _framed(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("<Q", len(content)) + content


def _refused(value: object, where: str, why: str = "") -> DataError:
    shown = repr(value)
    shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}..."
    return DataError(
        f"{where} holds {type(value).__name__}, whose content cannot be told from another's",
        value=f"{shown} ({why})" if why else shown,
        allowed=_ALLOWED,
        fix="give the label as these, for example as a dict of arrays",
    )


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return ``dtype.name``, cached because numpy builds it at each access, as slowly as a small sample is hashed."""
    return dtype.name


def to_array(value: object, what: str) -> NDArray[Any]:
    """Return `value` as an array, without a copy where possible. Raises `DataError` when it cannot be converted."""
    tensor: Any = value
    try:
        if hasattr(value, "detach") and hasattr(value, "numpy"):
            tensor = tensor.detach().cpu().numpy()
        array = np.asarray(tensor)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{what} cannot be turned into an array",
            value=f"{type(value).__name__}: {error}",
            allowed="a numpy array, a torch tensor, or numbers of one shape",
            fix="convert it to a numpy array, for example with .float().numpy()",
        ) from error
    # numpy's fixed-width text would truncate a longer text in the same batch.
    return array.astype(object) if array.dtype.kind == "U" else array
