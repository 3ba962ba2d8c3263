"""Next steps that errors about files and types print: each is followed as it is written, and then there is no error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from pytest_quant import Dataset
from pytest_quant.backends import get_backend
from pytest_quant.backends.offer import OVERRIDE, set_tf32
from pytest_quant.backends.onnx_files import read_signature
from pytest_quant.data import open_data
from pytest_quant.errors import DataError, ModelFileError, UsageError
from pytest_quant.spec import EngineSpec, Model, Signature, TensorInfo
from tests.integration.projects import output, run_marks, write_project
from tests.support.measuring import numbers
from tests.support.models import parsed, select_first

_MODEL = Model("m")


def test_weights_beside_the_model(tmp_path: Path) -> None:
    """The file is put beside the model, or the model is saved again with its weights inside."""
    whole = select_first(tmp_path / "whole.onnx")
    for name, inside in (("beside", False), ("inside", True)):
        path = tmp_path / name / "model.onnx"
        path.parent.mkdir()
        onnx.save_model(onnx.load(whole), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        away = (path.parent / "weights.bin").rename(tmp_path / f"{name}.bin")
        with pytest.raises(ModelFileError, match="external data of model") as caught:
            read_signature(path)
        assert caught.value.fix == "put weights.bin beside the model, or save the model again with its weights inside"
        if inside:
            onnx.save_model(onnx.load(whole), path)
        else:
            away.rename(path.parent / "weights.bin")
        assert read_signature(path).inputs


def test_tf32_in_a_process_that_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is unset."""
    spec = EngineSpec("ort-cuda", "fp32", None, Model("m"))
    monkeypatch.setenv(OVERRIDE, "0")
    with pytest.raises(UsageError, match="switched off") as caught:
        set_tf32(spec, allowed=True)
    assert (caught.value.fix or "").startswith(f"unset {OVERRIDE}")
    monkeypatch.delenv(OVERRIDE)
    assert set_tf32(spec, allowed=True).options == (("tf32", True),)


def test_a_dataset_as_calibration() -> None:
    """Its arrays are given in its place."""
    images = numbers(4, 8)
    with pytest.raises(UsageError, match="calibration is a Dataset") as caught:
        Dataset.from_arrays(images, calibration=Dataset.from_arrays(images))
    assert caught.value.fix == "give its arrays: calibration=images"
    assert Dataset.from_arrays(images, calibration=images).calibration is images


@pytest.mark.parametrize(("dtype", "given"), [("float16", np.float32), ("int64", np.int32), ("object", np.float32)])
def test_data_of_another_type(dtype: str, given: type) -> None:
    """Inputs are converted as it says, to texts too, which numpy calls object."""
    signature = Signature((TensorInfo("x", dtype, (None, 8)),), ())
    inputs: np.ndarray = np.ones((4, 8), given)
    with pytest.raises(DataError, match="the dtype is not the model's") as caught:
        open_data(Dataset.from_arrays(inputs), signature, _MODEL)
    fix = (caught.value.fix or "").removeprefix("convert it: ")
    of_tensor = "" if dtype == "object" else f", or tensor.to(torch.{dtype})"
    assert fix == f"inputs.astype('{dtype}'){of_tensor}"
    assert open_data(Dataset.from_arrays(inputs.astype(dtype)), signature, _MODEL).n == 4


def test_a_type_that_numpy_lacks() -> None:
    """There is no ``np.bfloat16`` to convert to."""
    signature = Signature((TensorInfo("x", "bfloat16", (None, 8)),), ())
    with pytest.raises(DataError) as caught:
        open_data(Dataset.from_arrays(numbers(4, 8)), signature, _MODEL)
    assert caught.value.fix == "numpy has no bfloat16: use module.float()"


def test_halves_of_a_float_model(tmp_path: Path) -> None:
    """A file of halves is given: then the engine can be had."""
    model = Model.from_onnx(select_first(tmp_path / "model.onnx"))
    with pytest.raises(UsageError, match="does not make fp16 of a float model") as caught:
        get_backend("ort").check(EngineSpec("ort", "fp16", None, model))
    assert caught.value.fix == "write quantized='fp16.onnx'"
    get_backend("ort").check(EngineSpec("ort", "fp16", "given", model, model))


def test_half_precision_of_a_model_without_weights(pytester: pytest.Pytester) -> None:
    """There is nothing to round in it: the precision that is named can be judged."""
    parsed(pytester.path / "model.onnx", "(float[n, 8] x) => (float[n, 8] y) { y = Flatten (x) }")
    write_project(pytester)
    marks = {name: f"backend='trt', precision='{name}'" for name in ("fp16", "fp32")}
    result, checks = run_marks(pytester, marks, "--quant-simulate=SM89", "test_marks.py")
    assert "next: write precision='fp32'" in output(result)
    assert {name: check["status"] for name, check in checks.items()} == {"fp16": "ERROR", "fp32": "PASS"}
