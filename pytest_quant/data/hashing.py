"""Contents as numbers: eight bytes for each sample, one digest for a set."""

from __future__ import annotations

import hashlib
from array import array

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data.canonical import canonical_bytes
from pytest_quant.data.convert import dtype_name
from pytest_quant.data.label_forms import is_object
from pytest_quant.data.source import Block

_HASH_BYTES = 8


def hash_rows(block: Block, what: str, first: int) -> tuple[array[int], array[int]]:
    """Return one 64-bit hash for each sample: of its inputs alone, and of inputs and label.

    The first eight bytes of a sha256 over name, dtype, shape and bytes of every input; two unequal samples
    share one with probability 2^-64. `what` is the data and `first` the index of the block's first sample.

    Raises
    ------
    DataError : a label holds what has no canonical encoding.
    """
    columns = [(f"{name}|".encode(), _rows(values)) for name, values in sorted(block.feeds.items())]
    labels = None if block.labels is None else _label_rows(block.labels, what, first)
    of_inputs, of_all = array("Q"), array("Q")
    for i in range(block.n):
        state = hashlib.sha256()
        for name, (prefix, rows) in columns:
            state.update(name + prefix)
            state.update(rows[i])
        of_inputs.frombytes(state.digest()[:_HASH_BYTES])
        if labels is not None:
            state.update(b"label|" + labels[0])
            state.update(labels[1][i])
            of_all.frombytes(state.digest()[:_HASH_BYTES])
    return of_inputs, of_all if labels is not None else of_inputs


def _label_rows(labels: NDArray[np.generic], what: str, first: int) -> tuple[bytes, list[bytes] | list[memoryview]]:
    """The same of labels; objects are told apart by their content, not by how they print."""
    if not is_object(labels):
        return _rows(labels)
    return b"object|", [
        canonical_bytes(label, f"{what}: the label of sample {first + i}") for i, label in enumerate(labels)
    ]


def _rows(values: NDArray[np.generic]) -> tuple[bytes, list[bytes] | list[memoryview]]:
    """Dtype and shape of a row, and the bytes of each row, without a copy where memory is contiguous."""
    n = values.shape[0]
    kind = f"{dtype_name(values.dtype)}{values.shape[1:]}|".encode()
    if n > 1 and values.strides[0] == 0 and values.dtype.kind != "O":
        # One value for all samples: it is hashed with each, and copied for none.
        return kind, [np.ascontiguousarray(values[0]).tobytes()] * n
    if values.dtype.kind == "O":
        return f"text{values.shape[1:]}|".encode(), [repr(row).encode() for row in values.tolist()]
    flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    size = len(flat) // n if n else 0
    return kind, [flat[i * size : (i + 1) * size] for i in range(n)]


def digest_of(hashes: array[int]) -> str:
    """Sha256 in hex over the hashes of a set's samples, in order."""
    return hashlib.sha256(hashes.tobytes()).hexdigest()
