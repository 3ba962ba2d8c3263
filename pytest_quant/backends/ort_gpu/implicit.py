"""Implicit INT8: the float graph that was calibrated, and the ranges of its tensors beside it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from pytest_quant.backends.ort.calibrate import RANGES_FILE
from pytest_quant.backends.ort.prepare import prepare
from pytest_quant.backends.ort_gpu.tensorrt import TABLE_FILE, read_ranges, write_table
from pytest_quant.backends.trt.build import GRAPH_FILE
from pytest_quant.backends.trt.preflight import check_graph
from pytest_quant.backends.trt.quantize import quantizer_spec
from pytest_quant.spec import EngineSpec


def write_float_with_table(spec: EngineSpec, calibration: Path, folder: Path) -> None:
    """Write graph and table into `folder`. The names in the table are those of the graph as it was calibrated.

    Raises
    ------
    BuildError : the graph has Q/DQ pairs or operators that TensorRT cannot take, or a range is no range.
    """
    with tempfile.TemporaryDirectory(prefix="pytest-quant-") as work:
        prepared = prepare(quantizer_spec(spec), Path(work), per_channel=True)
        for file in Path(work).glob(f"{prepared.name}*"):
            name = GRAPH_FILE if file == prepared else file.name
            shutil.copyfile(file, folder / name)
    check_graph(folder / GRAPH_FILE, calibrator=True)
    write_table(read_ranges(calibration / RANGES_FILE), folder / TABLE_FILE)
