"""The two builds of implicit INT8: one for the ranges, one for the plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends.trt import build
from pytest_quant.backends.trt.configure import BuildRequest
from pytest_quant.spec import Calibration, EngineSpec
from pytest_quant.testing.conformance.examples import dense


def test_the_build_that_calibrates_looks_for_no_fast_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plan is thrown away, and the times that it measured are no one else's; the build of the plan has them."""
    asked: list[BuildRequest] = []
    monkeypatch.setattr(build, "run_builder", lambda request, _name: asked.append(request))
    example = dense()
    options = {"quantization": "implicit", "optimization_level": 5, "timing_cache": str(tmp_path / "times")}
    spec = EngineSpec(
        "trt", "int8", "static", example.write(tmp_path), calibration=Calibration("entropy"),
        options=tuple(sorted(options.items())),
    )  # fmt: skip
    (tmp_path / "ranges").mkdir()
    (tmp_path / "plan").mkdir()
    batches = iter([example.feeds(4, 0), example.feeds(2, 1)])
    build.write_implicit_ranges(spec, batches, tmp_path / "ranges", module="tensorrt")
    build.write_plan(spec, tmp_path / "ranges", tmp_path / "plan", module="tensorrt")
    ranges, plan = asked
    assert (ranges.optimization_level, ranges.timing_cache) == (0, "")
    assert (plan.optimization_level, plan.timing_cache) == (5, str(tmp_path / "times"))
    assert ranges.ranges == plan.ranges
    assert np.all([ranges.calibration == plan.calibration == "entropy", ranges.samples != "", plan.samples == ""])
