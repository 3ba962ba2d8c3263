"""Batches: samples converted to arrays, stacked, and their labels as canonical bytes.

Every value is its kind (one byte), the length of what follows (eight bytes, little-endian) and what follows, so that
no two contents share an encoding. The names of a dict are sorted by their own encoding.
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
"""Samples that wait for others of their shape hold at most so much memory, and so many batches."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples of the evaluation set that one run takes.

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

    A batch is given as soon as it is full. Of samples that wait for others of their shape the oldest are given as they
    are once too much waits, so that memory is bounded. Feeds lead with the samples.

    Parameters
    ----------
    whole : inputs that one run takes one value of; samples whose values differ there are kept apart.
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
    """Return the encoding of `value`, whose kinds tell an int from a float, a bool and a text, and a list from a tuple.

    A numpy scalar is the Python value it holds, a torch tensor the array it holds; arrays differ by dtype and shape,
    arrays of text by shape alone. Floats are compared by their bits: 0.0 is not -0.0, and a NaN is itself.

    Raises
    ------
    DataError : there is a value of another type in it; `where` names the label.
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
    """``dtype.name``, which numpy spells anew each time: as slow as hashing a small sample."""
    return dtype.name


def to_array(value: object, what: str) -> NDArray[Any]:
    """Return `value` as an array, without a copy where it can be. Raises `DataError` when it is none."""
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
    # Fixed-width text would be cut when a longer one joins the same batch.
    return array.astype(object) if array.dtype.kind == "U" else array
