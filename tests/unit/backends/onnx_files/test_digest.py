"""Digests follow the content, not the name."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import onnx

from pytest_quant.backends.onnx_files import file_digests, model_file
from pytest_quant.testing.conformance.examples import dense


def test_digest_is_sha256(tmp_path: Path) -> None:
    """The digest is SHA-256 of the bytes."""
    path = model_file(dense().write(tmp_path))
    assert file_digests(path) == {"": hashlib.sha256(path.read_bytes()).hexdigest()}


def test_other_weights_of_the_same_size(tmp_path: Path) -> None:
    """Weights times 20 under the same name and size have another digest, even with the old time put back."""
    path = model_file(dense().write(tmp_path))
    before, stat = file_digests(path), path.stat()
    dense(scale=20.0).write(tmp_path)
    assert path.stat().st_size == stat.st_size
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert file_digests(path) != before


def test_external_data_counts(tmp_path: Path) -> None:
    """A change in the data file alone changes its digest and not the model's."""
    path = tmp_path / "model.onnx"
    onnx.save_model(dense().proto, path, save_as_external_data=True, location="w.bin", size_threshold=64)
    before = file_digests(path)
    data = path.with_name("w.bin")
    content = bytearray(data.read_bytes())
    content[-1] ^= 1
    data.write_bytes(content)
    after = file_digests(path)
    assert before[""] == after[""]
    assert before["w.bin"] != after["w.bin"]


def test_copy_has_the_same_digest(tmp_path: Path) -> None:
    """The digest does not depend on where the file lies."""
    path = model_file(dense().write(tmp_path))
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(path.read_bytes())
    assert file_digests(copy) == file_digests(path)
