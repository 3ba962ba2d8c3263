"""Ranges by TensorRT's own calibrator: a build whose plan is thrown away, and whose ranges are kept under our key."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.onnx_files import model_file, read_signature
from pytest_quant.backends.trt.build import RANGES_FILE, request_for, write_graph
from pytest_quant.backends.trt.gpu.samples import write_samples
from pytest_quant.backends.trt.run_builder import run_builder
from pytest_quant.spec import EngineSpec


def write_implicit_ranges(spec: EngineSpec, batches: Iterator[Feeds], folder: Path, *, module: str) -> None:
    """Write what TensorRT's calibrator finds over `batches` into `folder`.

    Raises
    ------
    DataError : there is no batch, or batches differ in shape or do not fit the model.
    BuildError : TensorRT refused the model, or read no batch.
    """
    with tempfile.TemporaryDirectory(prefix="pytest-quant-") as work:
        samples, engine = Path(work) / "samples", Path(work) / "engine"
        samples.mkdir()
        engine.mkdir()
        write_samples(batches, samples, read_signature(model_file(spec.model)), spec.model.name)
        request = request_for(spec, write_graph(spec, None, engine), module=module)
        run_builder(
            replace(request, samples=str(samples), ranges=str(folder / RANGES_FILE)),
            f"{spec.id} of {spec.model.name}, to calibrate it",
        )
