"""External data of ONNX files: weights in files beside the model, where its own table says."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PureWindowsPath

import onnx
from onnx.external_data_helper import uses_external_data

from pytest_quant.errors import ModelFileError

_DIGITS_OF_SIZE = 18
"""Digits of an offset or a length; a file of more bytes cannot be."""


def find_files(tensors: Iterable[onnx.TensorProto], path: Path) -> dict[str, Path]:
    """Return the external data files of `tensors`: location, as the graph spells it, and file.

    Parameters
    ----------
    tensors : of one model; those that hold their values themselves have no file.
    path : of the model.

    Raises
    ------
    ModelFileError : a file is missing, shorter than the graph says, or outside the model's folder; or an entry is
        damaged.
    """
    ends: dict[str, int] = {}
    for tensor in tensors:
        if uses_external_data(tensor):
            location, end = _place_of(tensor, path)
            ends[location] = max(ends.get(location, 0), end)
    files = {location: _inside(location, path) for location in sorted(ends)}
    for location, file in files.items():
        _check_whole(file, ends[location], path)
    return files


def _place_of(tensor: onnx.TensorProto, path: Path) -> tuple[str, int]:
    """Return the file of a tensor's external data, as the graph spells it, and the byte in it where the data ends."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    numbers = [entries.get(key) or "0" for key in ("offset", "length")]
    if entries.get("location", "").strip() and "\0" not in entries["location"] and all(map(_is_size, numbers)):
        return entries["location"], sum(map(int, numbers))
    raise ModelFileError(
        f"external data of {path.name} cannot be found: the entry of '{tensor.name}' is damaged",
        value=", ".join(f"{key} {value[:80]!r}" for key, value in entries.items()) or "no entry",
        allowed="a location, and an offset and a length in bytes that are not negative",
        fix="write or download the model again",
    )


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_OF_SIZE


def _inside(location: str, path: Path) -> Path:
    normal = os.path.normpath(location.replace("\\", "/"))
    if normal.startswith("..") or Path(normal).is_absolute() or PureWindowsPath(location).drive:
        raise ModelFileError(
            f"external data of {path.name} points outside the model's folder",
            value=location,
            allowed=f"a file in {path.parent}",
            fix="save the model again with onnx.save_model(model, path, save_as_external_data=True)",
        )
    return path.parent / normal


def _check_whole(file: Path, end: int, path: Path) -> None:
    """Raise when `file` is absent or has fewer than `end` bytes."""
    try:
        is_there = file.is_file()
    except OSError:
        # A name that is too long is that of no file.
        is_there = False
    if not is_there:
        raise ModelFileError(
            f"external data of {path.name} is missing: {file}",
            fix=f"put {file.name} beside the model, or save the model again with its weights inside",
        )
    if file.stat().st_size < end:
        raise ModelFileError(
            f"external data of {path.name} is truncated: {file}",
            value=f"{file.stat().st_size} bytes",
            allowed=f"at least {end} bytes, by the model's own table",
            fix="write or download the file again",
        )
