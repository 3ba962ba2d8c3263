"""Weights that an ONNX model keeps in files beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath

import onnx
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

from pytest_quant.backends.onnx_files.nested import all_nodes, graphs_in
from pytest_quant.errors import ModelError


def external_files(model: onnx.ModelProto, path: Path) -> dict[str, Path]:
    """Return the external data files of the model in `path`: location, as the graph spells it, and file.

    Raises
    ------
    ModelError : a file is missing, shorter than the graph says, or outside the model's folder.
    """
    ends: dict[str, int] = {}
    for tensor in _tensors(model):
        if uses_external_data(tensor):
            info = ExternalDataInfo(tensor)
            ends[info.location] = max(ends.get(info.location, 0), (info.offset or 0) + (info.length or 0))
    files = {location: _inside(location, path) for location in sorted(ends)}
    for location, file in files.items():
        _check_whole(file, ends[location], path)
    return files


def _inside(location: str, path: Path) -> Path:
    normal = os.path.normpath(location.replace("\\", "/"))
    if normal.startswith("..") or Path(normal).is_absolute() or PureWindowsPath(location).drive:
        raise ModelError(
            f"external data of {path.name} points outside the model's folder",
            value=location,
            allowed=f"a file in {path.parent}",
            fix="save the model again with onnx.save_model(model, path, save_as_external_data=True)",
        )
    return path.parent / normal


def _check_whole(file: Path, end: int, path: Path) -> None:
    """Raise when `file` is absent or has fewer than `end` bytes."""
    if not file.is_file():
        raise ModelError(
            f"external data of {path.name} is missing: {file}",
            fix=f"put {file.name} beside the model, or save the model again with its weights inside",
        )
    if file.stat().st_size < end:
        raise ModelError(
            f"external data of {path.name} is truncated: {file}",
            value=f"{file.stat().st_size} bytes",
            allowed=f"at least {end} bytes, by the model's own table",
            fix="write or download the file again",
        )


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    for graph in graphs_in(model):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield sparse.values
            yield sparse.indices
    for node in all_nodes(model):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
