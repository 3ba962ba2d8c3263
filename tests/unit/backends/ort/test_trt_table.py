"""The table of ranges, read back byte by byte by the rules of the flatbuffers format."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.backends.ort.calibrate import RANGES_FILE
from pytest_quant.backends.ort.tensorrt import largest_magnitude, read_ranges, write_table
from pytest_quant.backends.trt.quantize import write_trt_ranges
from pytest_quant.errors import BuildError
from pytest_quant.spec import EngineSpec
from pytest_quant.testing.conformance.examples import dense

FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)


def read_table(data: bytes) -> dict[str, float]:
    """A root offset; a table whose first field is a vector of tables with two strings each."""

    def unsigned(at: int) -> int:
        return int(struct.unpack_from("<I", data, at)[0])

    def field(table: int, index: int) -> int:
        vtable = table - struct.unpack_from("<i", data, table)[0]
        offset = struct.unpack_from("<H", data, vtable + 4 + 2 * index)[0]
        at = table + offset
        return int(at + unsigned(at))

    def text(at: int) -> str:
        return data[at + 4 : at + 4 + unsigned(at)].decode()

    vector = field(unsigned(0), 0)
    places = [vector + 4 + 4 * index for index in range(unsigned(vector))]
    entries = [place + unsigned(place) for place in places]
    return {text(field(entry, 0)): float(text(field(entry, 1))) for entry in entries}


@pytest.mark.parametrize(
    ("lowest", "highest", "expected"), [(-5.0, 1.0, 5.0), (-5.0, -2.0, 5.0), (0.0, 3.0, 3.0), (-1.0, 4.0, 4.0)]
)
def test_the_largest_absolute_value(tmp_path: Path, lowest: float, highest: float, expected: float) -> None:
    """A range from -5 to 1 gives 5, where the writer of ONNX Runtime gives 1, and one from -5 to -2 gives 5, not -2."""
    write_table({"t": (lowest, highest)}, tmp_path / "table")
    assert read_table((tmp_path / "table").read_bytes()) == {"t": expected}


@given(
    ranges=st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1),
        st.tuples(FLOATS, FLOATS).map(sorted).map(tuple).filter(any),
        max_size=20,
    )
)
def test_every_tensor_is_in_it(
    tmp_path_factory: pytest.TempPathFactory, ranges: dict[str, tuple[float, float]]
) -> None:
    """Any names and any number of them come back, each with a number no end of its range lies beyond."""
    file = tmp_path_factory.getbasetemp() / "table"
    write_table(ranges, file)
    assert read_table(file.read_bytes()) == {name: float(np.abs(np.array(ends)).max()) for name, ends in ranges.items()}


@pytest.mark.parametrize(
    ("lowest", "highest"), [(-math.inf, 1.0), (0.0, math.inf), (math.nan, 1.0), (0.0, math.nan), (2.0, 1.0), (0.0, 0.0)]
)
def test_a_range_that_is_none(lowest: float, highest: float) -> None:
    """It is refused with the tensor's name; TensorRT would take it and compute nonsense."""
    with pytest.raises(BuildError, match="'hidden'"):
        largest_magnitude("hidden", lowest, highest)


def test_ranges_of_a_real_calibration(tmp_path: Path) -> None:
    """The range of the input is the least and the greatest number in the samples."""
    example = dense()
    spec = EngineSpec("ort-trt", "int8", "static", example.write(tmp_path))
    batches = [example.feeds(4, seed) for seed in range(3)]
    write_trt_ranges(spec, lambda: iter(batches), tmp_path)
    samples = np.concatenate([batch["x"] for batch in batches])
    found = read_ranges(tmp_path / RANGES_FILE)["x"]
    largest = float(np.abs(samples).max())
    assert largest_magnitude("x", *found) == pytest.approx(largest, rel=1e-6)
