"""Optimization profiles of the real TensorRT-RTX come from the data, or from the mark, and hold what will run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import get_backend
from pytest_quant.errors import BuildError, DataError
from pytest_quant.spec import Dataset
from tests.integration.trt_traps.networks import (
    check_of,
    detector,
    images,
    resizer,
    session_in,
    steps,
    tokens,
)

SIZES = ((64, 64),) * 5 + ((48, 96), (96, 320))
"""Height and width of images: five of one size, one smaller and one larger."""


def seen() -> Dataset:
    """Images of every size of `SIZES` to evaluate, and one each of two sizes to calibrate on."""
    return Dataset.from_iterable(images(SIZES), calibration=images(((40, 64), (64, 64)), seed=1))


def test_detector_with_free_height_and_width(tmp_path: Path) -> None:
    """It builds, in float and in INT8, for the smallest and largest axis seen in both sets and the commonest image."""
    with session_in(tmp_path) as session:
        result = session.measure_engines(check_of(detector(tmp_path), seen()))
    assert result.coverage.pct == 100.0
    assert result.accuracy.n == len(SIZES)
    for spec in (result.check.candidate, result.check.reference):
        (x,) = spec.shapes
        assert (x.smallest, x.usual, x.largest) == ((1, 3, 40, 64), (4, 3, 64, 64), (7, 3, 96, 320))
    result.close()


def test_tokens_of_free_length(tmp_path: Path) -> None:
    """Two inputs of one length: the usual shapes are those of one and the same sample, or they would contradict."""
    rng = np.random.default_rng(0)
    samples = [{"ids": rng.integers(0, 50, length), "mask": np.ones(length, np.float32)} for length in (7, 7, 7, 3, 90)]
    with session_in(tmp_path) as session:
        result = session.measure_engines(check_of(tokens(tmp_path), Dataset.from_iterable(samples, calibration=1)))
    ids, mask = result.check.candidate.shapes
    assert (ids.smallest, ids.usual, ids.largest) == ((1, 3), (4, 7), (4, 90))
    assert (mask.smallest, mask.usual, mask.largest) == (ids.smallest, ids.usual, ids.largest)
    result.close()


def test_samples_on_the_second_axis(tmp_path: Path) -> None:
    """The range of the batch goes to the axis that counts samples, and the mark bounds it there."""
    rng = np.random.default_rng(0)
    samples = [rng.normal(size=(length, 16)).astype(np.float32) for length in (5, 5, 2, 9) * 2]
    shapes = {"x": [(2, 1, 16), (5, 4, 16), (9, 6, 16)]}
    with session_in(tmp_path) as session:
        free = session.measure_engines(check_of(steps(tmp_path), Dataset.from_iterable(samples), scheme=None))
        bound = session.measure_engines(
            check_of(steps(tmp_path), Dataset.from_iterable(samples), scheme=None, shapes=shapes)
        )
    for result, largest in ((free, 8), (bound, 6)):
        (x,) = result.check.candidate.shapes
        assert (x.smallest, x.usual, x.largest) == ((2, 1, 16), (5, 4, 16), (9, largest, 16))
        result.close()


def test_what_was_built_is_refused_other_shapes(tmp_path: Path) -> None:
    """The simulation refuses what the engine on a GPU would refuse, with the range and what to write."""
    with session_in(tmp_path) as session:
        result = session.measure_engines(check_of(detector(tmp_path), seen(), scheme=None))
    wide = np.zeros((1, 3, 64, 640), np.float32)
    with pytest.raises(DataError, match="input 'x' does not fit the engine") as caught:
        result.engine.run({"x": wide})
    assert "(1, 3, 40, 64) to (7, 3, 96, 320)" in str(caught.value)
    assert "options={'shapes': {'x': [(1, 3, 40, 64), (4, 3, 64, 64), (7, 3, 96, 640)]}}" in str(caught.value)
    result.close()


def test_the_mark_sets_the_shapes(tmp_path: Path) -> None:
    """What it allows beyond the data runs; the batches of the evaluation stay within it."""
    shapes = {"x": [[1, 3, 32, 32], [4, 3, 64, 64], [8, 3, 640, 640]]}
    with session_in(tmp_path) as session:
        result = session.measure_engines(check_of(detector(tmp_path), seen(), scheme=None, shapes=shapes))
    assert result.engine.run({"x": np.zeros((8, 3, 64, 640), np.float32)})["scores"].shape[0] == 8
    with pytest.raises(DataError, match="does not fit the engine"):
        result.engine.run({"x": np.zeros((9, 3, 64, 64), np.float32)})
    result.close()


def test_another_shape_in_the_data_is_another_engine(tmp_path: Path) -> None:
    """The profile is part of the key: an engine for small images is not taken for large ones."""
    path, keys = detector(tmp_path), []
    with session_in(tmp_path) as session:
        for seed, size in enumerate(((64, 64), (64, 64), (64, 96))):
            result = session.measure_engines(
                check_of(path, Dataset.from_iterable(images((size,), seed=seed)), scheme=None)
            )
            keys.append(result.digests["engine"])
            result.close()
    assert keys[0] == keys[1] != keys[2]


def test_a_shape_that_the_network_cannot_take_is_answered_with_shapes(tmp_path: Path) -> None:
    """Not with nodes to exclude: the map is smaller than the kernel, and no node is at fault."""
    check = check_of(detector(tmp_path), Dataset.from_iterable(images(((20, 20),))), scheme=None)
    with session_in(tmp_path) as session, pytest.raises(BuildError, match="cannot be negative") as caught:
        session.measure_engines(check)
    assert "exclude" not in str(caught.value)
    assert "'x' from (1, 3, 20, 20) to (4, 3, 20, 20), usually (4, 3, 20, 20)" in str(caught.value)


def test_an_input_that_is_a_shape_is_refused(tmp_path: Path) -> None:
    """Its values decide shapes, which the data cannot tell TensorRT: the error names the input and what to do."""
    spec = check_of(resizer(tmp_path), Dataset.from_iterable([]), scheme=None).candidate
    with pytest.raises(BuildError, match=r"the values of an input decide shapes.*'size'") as caught:
        get_backend("trt-rtx").build(spec, None, tmp_path)
    assert "as a constant" in str(caught.value)
