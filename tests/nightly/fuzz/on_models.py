"""Model files: read as they are, and measured as a marked test would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_quant.backends import get_backend
from pytest_quant.backends.onnx_files import (
    file_digests,
    needs_external_data,
    read_graph,
    read_signature,
    read_table_rows,
    size_bytes,
)
from pytest_quant.backends.onnx_files.graphs import opset_of
from pytest_quant.backends.onnx_files.normalize import normal_file
from pytest_quant.backends.runtime import name_errors
from pytest_quant.cache import Cache
from pytest_quant.check_runner import CheckRunner
from pytest_quant.data.layout import find_layout
from pytest_quant.measure.build import Tools
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.steps import Steps
from pytest_quant.spec import Check, Dataset, EngineSpec, Model, Signature, TensorInfo
from tests.nightly.fuzz.models import WEIGHTS_FILE, Mutant, mutants
from tests.nightly.fuzz.target import Target, meet_apart
from tests.support.models import CLASSES, FEATURES

N, N_CALIBRATION = 5, 3
_FREE = 3
"""Size of an axis that the graph leaves free."""

_MOST_ELEMENTS = 10_000
_STEP_S = 10.0
"""A loop that a model never leaves is ended by what ends it in a user's run; usual steps need less than one second."""

_SCHEMES = (("int8", "static"), ("int8", "dynamic"), ("int4", "weight-only"), ("fp32", None))


@dataclass(frozen=True, slots=True)
class Asked:
    """A model and what a mark asks of it."""

    model: Mutant
    engine: tuple[str, str | None]


def read(case: Mutant, folder: Path) -> None:
    """Read the file in every way in which a backend reads one before a runtime does."""
    path = _written(case, folder)
    graph = read_graph(path)
    opset_of(graph)
    file_digests(path)
    size_bytes(path)
    needs_external_data(path)
    read_signature(path)
    read_table_rows(path)
    # As every build does.
    with name_errors("building failed"):
        read_signature(normal_file(path, folder, per_channel=True))


def measure(case: Asked, folder: Path) -> None:
    """Build both engines in ONNX Runtime, run them over samples that fit, and judge."""
    model = Model.from_onnx(_written(case.model, folder))
    steps = Steps(lambda _: None, _STEP_S)
    tools = Tools(Cache(folder / "cache"), steps, DeviceLocks(steps.notify))
    session = CheckRunner(tools, baseline=lambda _: None, diagnose_s=0)
    precision, scheme = case.engine
    check = Check(
        "test_fuzz.py::test_model",
        "test_fuzz.py::test_model",
        EngineSpec("ort", precision, scheme, model),
        EngineSpec("ort", "fp32", None, model),
        _data(get_backend("ort").signature(model)),
        latency=None,
        latency_off="nothing is timed here",
    )
    measurement = session.measure_engines(check)
    try:
        session.judge(measurement)
    finally:
        measurement.close()


def _written(case: Mutant, folder: Path) -> Path:
    """Write the model, and beside it the weights that one of the corpus keeps there."""
    (folder / WEIGHTS_FILE).write_bytes(np.eye(FEATURES, CLASSES, dtype=np.float32).tobytes())
    path = folder / "model.onnx"
    path.write_bytes(case.content)
    return path


@contextmanager
def _silent(_: str) -> Iterator[None]:
    yield


def _data(signature: Signature) -> Dataset:
    random = np.random.default_rng(0)
    ranks = {tensor.name: len(tensor.shape or ()) for tensor in signature.inputs}
    axes = find_layout(signature, {}, ranks, where="data", states=frozenset()).axes
    inputs, calibration = (
        {tensor.name: _values(tensor, n, axes[tensor.name], random) for tensor in signature.inputs}
        for n in (N, N_CALIBRATION)
    )
    return Dataset.from_arrays(inputs, random.integers(0, 2, N), calibration)


def _values(tensor: TensorInfo, n: int, axis: int | None, random: np.random.Generator) -> NDArray[Any]:
    sizes = [_FREE if size is None else min(size, _MOST_ELEMENTS) for size in tensor.shape or ()]
    if axis is not None:
        del sizes[axis : axis + 1]
        sizes.insert(0, n)
    while np.prod(sizes, dtype=float) > _MOST_ELEMENTS:
        sizes[int(np.argmax(sizes))] = 1
    values = random.normal(size=sizes)
    if tensor.dtype in ("object", "str"):
        return np.full(values.shape, "text", object)
    return values.astype(np.dtype(tensor.dtype) if _is_numpy(tensor.dtype) else np.float32)


def _is_numpy(name: str) -> bool:
    try:
        np.dtype(name)
    except TypeError:
        return False
    return True


READ = Target(mutants(), lambda case: meet_apart(read, case), examples=400)
MEASURE = Target(
    st.builds(Asked, mutants(), st.sampled_from(_SCHEMES)),
    lambda case: meet_apart(measure, case),
    examples=130,
)
