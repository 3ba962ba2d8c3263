"""The models of a self-test are calm in their values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from pytest_quant.backends.workload import WORKLOADS, Workload, inputs_of, write_workload

KINDS = [pytest.param(work, id=work.name) for work in WORKLOADS[:2]]


@pytest.mark.parametrize("work", KINDS)
def test_values_neither_vanish_nor_explode(tmp_path: Path, work: Workload) -> None:
    """After twenty layers they are still of the size of the input, so that INT8 has something to round."""
    write_workload(tmp_path / "model.onnx", work)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x0": inputs_of(work, 1)})
    assert result.shape == (1, work.rows, work.width)
    assert 0.001 < float(np.abs(result).mean()) < 1000.0
