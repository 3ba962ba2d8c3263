"""Read the graph of an ONNX file, without the weights that lie beside it."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from pytest_quant.backends.onnx_files.external import external_files
from pytest_quant.errors import ModelError, UsageError
from pytest_quant.spec import Model


def model_file(model: Model) -> Path:
    """Return the ONNX file of `model`.

    Raises
    ------
    UsageError : it is a torch module, which has no file.
    """
    if model.path is None:
        raise UsageError(
            f"model '{model.name}' is a torch module, and this backend reads ONNX files",
            allowed="a path, or Model.from_onnx(path)",
            fix="write it with torch.onnx.export(module, example_inputs, 'model.onnx', dynamo=True) and give that path",
        )
    return model.path


def read_graph(path: Path) -> onnx.ModelProto:
    """Return the model in `path` without its external data, which is only checked to be there.

    Raises
    ------
    ModelError : the file is missing, truncated or not ONNX, or its external data is missing, too short or
        outside the model's folder.
    """
    if not path.is_file():
        raise ModelError(
            f"the model file does not exist: {path}" if not path.exists() else f"the model is not a file: {path}",
            fix="check the path; a relative one counts from the test file, else from pytest's root directory",
        )
    try:
        model = onnx.load_model(path, format="protobuf", load_external_data=False)
    except DecodeError as error:
        raise _not_onnx(path) from error
    if not model.ir_version or not model.graph.output or not model.opset_import:
        raise _not_onnx(path)
    external_files(model, path)
    return model


def _not_onnx(path: Path) -> ModelError:
    return ModelError(
        f"the model is not a whole ONNX file: {path}",
        value=f"{path.stat().st_size} bytes that do not parse as an ONNX model",
        allowed="an ONNX model in the protobuf format",
        fix="write or download the file again; if it is a Git LFS pointer, run: git lfs pull",
    )
