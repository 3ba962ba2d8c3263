"""A library with an operator of somebody's own, compiled by the system's C compiler, and a network that has it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

from pytest_quant.spec import Model

_SOURCE = Path(__file__).with_suffix(".c")
RNG = np.random.default_rng(0)
INNER, HEAD = RNG.normal(size=(8, 16)).astype(np.float32), RNG.normal(size=(16, 4)).astype(np.float32)


@pytest.fixture(scope="session")
def custom_operators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library; `Twice` of the domain ``test.custom`` doubles what it reads."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler here, with which a library of custom operators is made")
    library = tmp_path_factory.mktemp("custom-operators") / "libtwice.so"
    # The functions of the table have no prototypes, which is an error since C23.
    subprocess.run([compiler, "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)], check=True)
    return library


def doubling_network(folder: Path) -> Model:
    """Two products with the operator between them: ``y = 2 (x inner) head``."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17, "test.custom": 1]>
    doubling (float[n, 8] x) => (float[n, 4] y) {
        [first] hidden = MatMul(x, inner)
        [twice] doubled = test.custom.Twice(hidden)
        [second] y = MatMul(doubled, head)
    }""")
    weights = {"inner": INNER, "head": HEAD}
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    # As exporters write them: nothing else in the file tells the type of an operator that ONNX does not know.
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("doubled", onnx.TensorProto.FLOAT, ["n", 16]))
    path = folder / "doubling.onnx"
    path.write_bytes(model.SerializeToString())
    return Model.from_onnx(path)
