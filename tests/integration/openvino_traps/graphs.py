"""Small ONNX graphs on which names and precisions go astray."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends import Engine, Feeds, get_backend
from pytest_quant.spec import EngineSpec, Model
from tests.support.models import parsed

Array = NDArray[np.float32]


def normal(*shape: int, seed: int = 0, scale: float = 0.3) -> Array:
    """Normal values."""
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def write(path: Path, text: str, **weights: NDArray[np.generic]) -> Model:
    """Write the graph that `text` describes, with these weights."""
    return Model.from_onnx(parsed(path, text, **weights))


def recurrent(path: Path) -> Model:
    """An LSTM of 8 units and a dense layer on its last state."""
    text = """(float[5, n, 4] x) => (float[n, 3] y) <int64[1] axis = {0}> {
        [rnn] all, state = LSTM<hidden_size = 8>(x, W, R, B) [squeeze] s = Squeeze(state, axis)
        [last] y = MatMul(s, w) }"""
    return write(path, text, W=normal(1, 32, 4), R=normal(1, 32, 8), B=normal(1, 64), w=normal(8, 3))


@contextmanager
def quantized(spec: EngineSpec, feeds: Callable[[int], Feeds] | None = None) -> Iterator[Engine]:
    """Build and open; with `feeds`, quantize over four batches of ``feeds(seed)`` before."""
    backend = get_backend("openvino")
    backend.check(spec)
    with TemporaryDirectory() as ranges, TemporaryDirectory() as folder:
        if feeds is not None:
            backend.calibrate(spec, lambda: (feeds(seed) for seed in range(4)), Path(ranges))
        backend.build(spec, Path(ranges) if feeds else None, Path(folder))
        with backend.open(spec, Path(folder)) as engine:
            yield engine
