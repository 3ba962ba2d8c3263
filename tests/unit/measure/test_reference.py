"""The reference is a float model, and latency is compared with the engine that the mark names in its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from pytest_quant.backends import TF32, Engine, Offer, set_tf32
from pytest_quant.backends.offer import OVERRIDE
from pytest_quant.errors import BuildError, ModelError
from pytest_quant.measure import engine_trio
from pytest_quant.measure.model_kinds import refuse_quantized
from pytest_quant.measure.pipeline import Measurement
from pytest_quant.readers import FLAG, Key
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec, LatencyPlan, Model
from tests.unit.measure.played import PlayedBackend, inputs
from tests.unit.measure.simulated import SimulatedTime
from tests.unit.measure.test_pipeline import FLOAT, Bench, bench

__all__ = ["bench"]


def test_a_file_of_another_format_is_its_backends_matter(tmp_path: Path) -> None:
    """Nothing is said about what cannot be read; a third party's backend may read files of its own."""
    (tmp_path / "net.own").write_bytes(b"not ONNX")
    for model in (Model("net", path=tmp_path / "net.own"), Model("net", path=tmp_path / "none"), Model("net")):
        refuse_quantized(EngineSpec("played", "fp32", None, model))


def test_a_node_that_rounds_is_named(tmp_path: Path) -> None:
    """The float graph passes, and the same with a pair of Q and DQ is refused as the reference."""
    graph = '<ir_version: 8, opset_import: ["" : 17]> net (float[n, 4] x) => (float[n, 4] y)'
    scale = "<float s = {0.5}, int8 z = {0}>"
    texts = {
        "float": f"{graph} {{ y = Relu (x) }}",
        "pair": f"{graph} {scale} {{ q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }}",
    }
    specs = {}
    for name, text in texts.items():
        path = tmp_path / f"{name}.onnx"
        onnx.save(onnx.parser.parse_model(text), path)
        specs[name] = EngineSpec("ort", "fp32", None, Model.from_onnx(path))
    refuse_quantized(specs["float"])
    with pytest.raises(ModelError, match="it is quantized already") as raised:
        refuse_quantized(specs["pair"])
    assert "QuantizeLinear" in str(raised.value)


def test_a_reference_that_cannot_be_seen_into_is_no_quantized_one(bench: Bench) -> None:
    """It is refused for what was seen in another precision; what was not seen is told, from the cache too."""
    hidden = Coverage(40.0, "MACs", (), "played", opaque_nodes=3, high_pct=100.0)
    mixed = replace(hidden, high_pct=99.0, float_nodes=("a",), notes=("1 product ran in fp16",))
    bench.backend.facts = {"coverage": lambda _: mixed}
    with pytest.raises(ModelError, match="40 % of MACs ran in float32, not a; 1 product ran in fp16"):
        bench.measure()
    bench.backend.facts = {"coverage": lambda _: hidden}
    nodes = "3 nodes, 60 % of MACs, of the reference played-fp32 cannot be seen into"
    for _ in range(2):
        assert f"{nodes}: that they run in float32 is not proven" in bench.measure().notes


RUN_MS: Mapping[str, float] = {"fp32": 4.0, "tf32": 3.0, "fp16": 2.0, "int8": 1.0}
"""Of one run, in each precision."""


class Paced(PlayedBackend):
    """Its engines take the time of their precision, on a device that has TF32."""

    offer = Offer(
        {"fp32": (None,), "fp16": (None,), "int8": ("static",)}, {TF32: Key(TF32, FLAG, "rounds inputs to ten bits")}
    )

    def __init__(self, bench: Bench, time: SimulatedTime) -> None:
        super().__init__(bench.play, inputs(x=(None, 2)))
        self.pct: dict[str, float] = {}
        self.high_pct: dict[str, float] = {}
        self._time = time

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open an engine of known speed and coverage."""
        engine: Any = super().open(spec, folder)
        precision = "tf32" if dict(spec.options).get("tf32") else spec.precision
        engine.prepare = lambda _: self._time.engine(RUN_MS[precision])
        low, high = self.pct.get(precision, 100.0), self.high_pct.get(precision)
        engine.coverage = lambda _: Coverage(low, "MACs", (), "played", float_nodes=("/a",), high_pct=high)
        result: Engine = engine
        return result


@pytest.fixture(autouse=True)
def no_override(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a usual machine, whatever ran in this process before."""
    monkeypatch.delenv(OVERRIDE, raising=False)


@pytest.fixture
def paced(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Paced:
    """The only backend, on a clock that its engines move."""
    time = SimulatedTime()
    monkeypatch.setattr(engine_trio, "measure", time.measure_calls)
    bench.backend = backend = Paced(bench, time)
    return backend


def measured(bench: Bench, precision: str) -> Measurement:
    """Measure the check of int8 against a reference of `precision`."""
    rounding = set_tf32(FLOAT, allowed=True)
    timed = {"fp32": None, "tf32": rounding}.get(precision, replace(FLOAT, precision=precision))
    return bench.measure(
        latency=LatencyPlan(), latency_off="", reference_precision=precision, timed_reference=timed
    )  # fmt: skip


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16"])
def test_the_named_engine_is_timed(bench: Bench, paced: Paced, precision: str) -> None:
    """The speedup is the ratio of the two that were named, and so is the noise that the null finds."""
    result = measured(bench, precision).latency
    assert result is not None
    assert result.speedup == pytest.approx(RUN_MS[precision] / RUN_MS["int8"], rel=1e-3)
    assert result.reference_p50_ms == pytest.approx(RUN_MS[precision], rel=1e-3)
    assert (result.null_ratio_ci.low, result.null_ratio_ci.high) == pytest.approx((1.0, 1.0), rel=1e-3)
    assert result.reference_precision == precision
    assert result.tf32 is {"fp32": False, "tf32": True, "fp16": None}[precision]
    assert all(engine.closed for engine in paced.engines[2:])


def test_accuracy_is_compared_with_exact_fp32(bench: Bench, paced: Paced) -> None:
    """Even where the engine that is timed computes nothing but zeros."""

    def zeros_in_half(precision: str, feeds: Any) -> Any:
        return {"y": np.zeros_like(feeds["x"])} if precision == "fp16" else {"y": feeds["x"]}

    paced._play = zeros_in_half
    result = measured(bench, "fp16")
    assert (result.accuracy.reference, result.accuracy.drop) == (100.0, 0.0)
    assert result.accuracy.identical
    assert result.reference.spec == FLOAT


def test_the_named_engine_comes_from_the_cache(bench: Bench, paced: Paced) -> None:
    """It is built, and what it runs read back, once."""
    built = [call for call in paced.calls if call[0] == "build"]
    assert built == []
    for _ in range(2):
        measured(bench, "fp16").close()
    assert sum(call[0] == "build" for call in paced.calls) == 3
    assert bench.steps.texts.count("reading back what played-fp16 of net runs") == 1


def test_a_run_without_timing_builds_no_engine_for_it(bench: Bench, paced: Paced) -> None:
    """Nor where an engine is a simulation."""
    half = replace(FLOAT, precision="fp16")
    bench.measure(reference_precision="fp16", timed_reference=half)
    paced.facts = {"simulated": True}
    assert measured(bench, "fp16").latency is None
    assert {engine.spec.precision for engine in paced.engines} == {"fp32", "int8"}


def test_an_engine_that_runs_in_another_precision_is_refused(bench: Bench, paced: Paced) -> None:
    """The times would be those of another one; the nodes are named."""
    paced.pct = {"fp16": 49.0}
    with pytest.raises(BuildError, match="latency cannot be compared with played-fp16 of net") as caught:
        measured(bench, "fp16")
    assert "49 % of MACs ran in fp16, not /a" in str(caught.value)
    paced.pct = {"tf32": 90.0}
    with pytest.raises(ModelError, match="does not compute in FP32"):
        measured(bench, "tf32")


def test_an_engine_that_cannot_be_seen_into_may_run_as_named(bench: Bench, paced: Paced) -> None:
    """Refused is what runs in another precision even with all that is hidden in the one that is named."""
    paced.pct, paced.high_pct = {"fp16": 10.0}, {"fp16": 49.0}
    with pytest.raises(BuildError, match="which runs in another precision"):
        measured(bench, "fp16")
    paced.high_pct = {"fp16": 51.0}
    assert measured(bench, "fp16").latency is not None
