"""Write an ONNX model, with its weights beside it where one file cannot hold them."""

from __future__ import annotations

from pathlib import Path

import onnx

from pytest_quant.backends.onnx_files.digest import size_bytes

EMBED_BYTES = 1_500_000_000
"""A protobuf file ends at 2 GB; larger models keep their weights beside it."""


def needs_external_data(path: Path) -> bool:
    """Tell whether a model of this size must keep its weights in a file of their own."""
    return size_bytes(path) > EMBED_BYTES


def write_model(model: onnx.ModelProto, path: Path) -> None:
    """Write `model` to `path`, and large weights to ``path.data``; a file that was there is replaced."""
    external = model.ByteSize() > EMBED_BYTES
    (path.parent / f"{path.name}.data").unlink(missing_ok=True)
    onnx.save_model(
        model, path, save_as_external_data=external, all_tensors_to_one_file=external, location=f"{path.name}.data"
    )
