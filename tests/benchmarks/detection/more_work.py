"""A third party's backend: ONNX Runtime that is given a model with more of the same work than it was asked to build."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_quant.backends import Engine
from pytest_quant.backends.ort import OrtBackend
from pytest_quant.spec import EngineSpec, Model

NAME = "ort-5-more"
MORE_PCT = 5.0


class MoreWork(OrtBackend):
    """Opens the file of `model_file` that has 5 % more layers, in place of the one that is asked for."""

    name = NAME

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Those of the larger model."""
        return super().ingredients(_larger(spec))

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Build the larger model."""
        super().build(_larger(spec), calibration, folder)

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open the larger model."""
        return super().open(_larger(spec), folder)


def _larger(spec: EngineSpec) -> EngineSpec:
    path = spec.model.path
    assert path is not None
    larger = path.with_name(path.name.replace("-0.onnx", f"-{MORE_PCT:g}.onnx"))
    return replace(spec, model=replace(Model.from_onnx(larger), name=spec.model.name))
