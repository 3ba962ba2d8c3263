"""The float model is prepared for ONNX Runtime's quantizers once, however often a process builds from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import onnx.numpy_helper
import pytest

from pytest_quant.backends.onnx_files.normalize import normal_file
from pytest_quant.backends.ort import build, prepare
from pytest_quant.spec import EngineSpec, Model
from tests.support.measuring import numbers
from tests.support.models import select_first


@pytest.mark.parametrize("scheme", ["static", "dynamic", "weight-only"])
def test_a_float_model_is_prepared_once(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For ranges, for the quantizer, and for a trial that leaves a node in float; a rewritten file is another model."""
    written: list[Path] = []

    def write(path: Path, work: Path, **more: bool) -> Path:
        written.append(path)
        return normal_file(path, work, **more)

    monkeypatch.setattr(prepare, "normal_file", write)
    path = select_first(tmp_path / "model.onnx")
    precision = "int4" if scheme == "weight-only" else "int8"
    spec = EngineSpec("ort", precision, scheme, Model.from_onnx(path))
    for number, each in enumerate((spec, replace(spec, exclude=("scores",)))):
        ranges, folder = (tmp_path / f"{name} {number}" for name in ("ranges", "engine"))
        ranges.mkdir()
        folder.mkdir()
        if scheme == "static":
            build.write_ranges(each, lambda: iter([{"x": numbers(4, 8)}]), ranges)
        build.write_engine(each, ranges if scheme == "static" else None, folder)
        assert (folder / build.ENGINE_FILE).is_file()
    assert written == [path]
    select_first(path, scale=20.0)
    file = prepare.prepare_model(spec, per_channel=True)
    assert written == [path, path]
    assert 20.0 in onnx.numpy_helper.to_array(onnx.load(file).graph.initializer[0])
