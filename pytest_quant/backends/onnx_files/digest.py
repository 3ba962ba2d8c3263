"""What an ONNX model is made of, byte for byte."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from pytest_quant.backends.onnx_files.external import external_files
from pytest_quant.backends.onnx_files.read import read_graph


def file_digests(path: Path) -> dict[str, str]:
    """Return SHA-256 of the model in `path` under ``""`` and of each external data file under its location.

    Raises
    ------
    ModelError : see `read_graph`.
    """
    files = external_files(read_graph(path), path)
    return {"": _digest(path)} | {location: _digest(file) for location, file in files.items()}


def size_bytes(path: Path) -> int:
    """Return the size of the model in `path` together with its external data."""
    files = external_files(read_graph(path), path).values()
    return path.stat().st_size + sum(file.stat().st_size for file in files)


def _digest(file: Path) -> str:
    stat = file.stat()
    return _digest_once(str(file.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


@lru_cache(maxsize=256)
def _digest_once(file: str, size: int, mtime_ns: int, ctime_ns: int) -> str:  # noqa: ARG001 - they make the key
    """Read `file` once per process and state: a rewritten file has another size or another time."""
    with Path(file).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
