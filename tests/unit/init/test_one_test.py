"""The test of one check: its samples are the arrays that fit, and what fits is said where none does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_quant.errors import UsageError
from pytest_quant.init.model_search import ModelToTest
from pytest_quant.init.one_test import write_test
from pytest_quant.spec import Signature, TensorInfo

ROWS = 50


def model(*inputs: str, **more: Any) -> ModelToTest:
    """Return a model with these inputs of four numbers."""
    tensors = tuple(TensorInfo(name, "float32", (None, 4)) for name in inputs)
    return ModelToTest("net", Signature(tensors, ()), "onnx", **more)


def archive(folder: Path, **arrays: Any) -> str:
    """Write arrays as a file, and return its path."""
    np.savez(folder / "x.npz", **arrays)
    return str(folder / "x.npz")


def numbers(rows: int = ROWS) -> np.ndarray:
    """Return samples of four numbers."""
    return np.zeros((rows, 4), np.float32)


def dataset_of(text: str) -> str:
    """Return what a test makes its data from; it is Python."""
    compile(text, "test_check.py", "exec")
    return text.partition("Dataset.from_arrays(")[2].partition(")\n")[0]


def test_the_only_array_is_the_input_whatever_it_is_called(tmp_path: Path) -> None:
    """Beside the labels; a tenth of the samples calibrates."""
    data = archive(tmp_path, images=numbers(), labels=np.zeros(ROWS, int))
    text = write_test(model("x"), "net.onnx", data, None, {"max_drop": 1.0, "backend": ["ort", "openvino"]})
    assert dataset_of(text) == 'samples["images"], samples["labels"], calibration=5'
    assert 'return "net.onnx"' in text
    assert '@pytest.mark.quant(max_drop=1.0, backend=["ort", "openvino"])\ndef test_net():' in text


def test_inputs_are_found_by_their_names(tmp_path: Path) -> None:
    """Others are left out, also beside a single input."""
    data = archive(tmp_path, page=numbers(), user=numbers(), other=numbers())
    text = write_test(model("page", "user"), "net.onnx", data, None, {})
    assert '    inputs = {\n        "page": samples["page"],\n        "user": samples["user"],\n    }\n' in text
    assert dataset_of(text) == "inputs, calibration=5"
    assert dataset_of(write_test(model("user"), "net.onnx", data, None, {})) == 'samples["user"], calibration=5'


def test_an_array_by_itself_has_its_labels_beside_it(tmp_path: Path) -> None:
    """In a file of np.save each; of many samples a hundred calibrate, as the guides do."""
    np.save(tmp_path / "x.npy", numbers(5000))
    np.save(tmp_path / "y.npy", np.zeros(5000, int))
    x, y = str(tmp_path / "x.npy"), str(tmp_path / "y.npy")
    text = write_test(model("x"), "net.onnx", x, y, {})
    assert dataset_of(text).startswith(f'samples, np.load("{y}"')
    assert text.partition("Dataset.from_arrays(")[2].splitlines()[0].endswith(", calibration=100)")
    assert f'samples = np.load("{x}")' in text


def test_an_input_called_labels_is_no_label(tmp_path: Path) -> None:
    """As of a decoder that is trained with them."""
    data = archive(tmp_path, ids=numbers(), labels=numbers())
    text = write_test(model("ids", "labels"), "net.onnx", data, None, {})
    assert dataset_of(text) == "inputs, calibration=5"


@pytest.mark.parametrize("mark", [{"scheme": "dynamic"}, {"quantized": "q.onnx"}])
def test_nothing_is_taken_away_where_nothing_calibrates(tmp_path: Path, mark: dict[str, object]) -> None:
    """All samples are evaluated."""
    data = archive(tmp_path, x=numbers())
    assert dataset_of(write_test(model("x"), "net.onnx", data, None, mark)) == 'samples["x"]'


def test_a_module_is_imported(tmp_path: Path) -> None:
    """And its model is what the expression gives."""
    module = model("x", module="nets", expression='Model.from_torch(*nets.example(), name="example")')
    text = write_test(module, "nets:example", archive(tmp_path, x=numbers()), None, {})
    compile(text, "test_check.py", "exec")
    assert "import nets\n\nfrom pytest_quant import Dataset, Model\n" in text
    assert '    return Model.from_torch(*nets.example(), name="example")\n' in text


def test_arrays_that_fit_no_input_are_listed_beside_the_inputs(tmp_path: Path) -> None:
    """With what to write."""
    data = archive(tmp_path, a=numbers(), b=numbers(), labels=np.zeros(ROWS, int))
    with pytest.raises(UsageError) as caught:
        write_test(model("x"), "net.onnx", data, None, {})
    said = str(caught.value)
    assert f"no array of {data} fits the inputs of the model" in said
    assert "got: a float32(50, 4), b float32(50, 4)" in said
    assert "by the names of the inputs: x float32 (n, 4)" in said
    assert "next: np.savez('samples.npz', x=..., labels=...)" in said


@pytest.mark.parametrize("content", [b"", b"no array", b"PK\x03\x04", b"\x93NUMPY\x01\x00"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    """In plain words, with what NumPy writes."""
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(UsageError, match=r'x.npz is no file of NumPy[^\n]*\n  next: write np.savez\("samples'):
        write_test(model("x"), "net.onnx", str(tmp_path / "x.npz"), None, {})


def test_objects_are_refused(tmp_path: Path) -> None:
    """They could run code when they are read."""
    data = archive(tmp_path, x=numbers(), labels=np.array(["a", None], object))
    with pytest.raises(UsageError, match=r"has objects in it\n.*texts as an array of dtype str"):
        write_test(model("x"), "net.onnx", data, None, {})


def test_a_file_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    """A folder, for example."""
    with pytest.raises(UsageError, match="is no file of NumPy that can be read"):
        write_test(model("x"), "net.onnx", str(tmp_path), None, {})
