"""TensorRT-RTX parses and builds without a GPU: what it refuses, what pre-flight refuses first, what it built."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from pytest_quant.backends import Feeds, get_backend
from pytest_quant.backends.trt.build import request_for, run_builder
from pytest_quant.backends.trt.graph import check_graph
from pytest_quant.errors import BuildError, UsageError
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import Example, conv, dense
from pytest_quant.testing.conformance.workbench import build, opened, sqnr_db
from tests.unit.backends.trt.test_graph import PAIR, written

RTX = get_backend("trt-rtx")
TARGET = (("compute_capability", "SM89"),)


def spec_of(model: Model, scheme: str | None = "static", **options: object) -> EngineSpec:
    """A spec for the target."""
    named = tuple(sorted({**dict(TARGET), **options}.items()))
    return EngineSpec("trt-rtx", "int8" if scheme else "fp32", scheme, model, options=named)


def parse(path: Path) -> None:
    """Let the real parser and builder say what they think of a file."""
    spec = EngineSpec("trt-rtx", "fp32", None, Model.from_onnx(path), options=TARGET)
    run_builder(request_for(spec, path, module="tensorrt_rtx"), "engine")


def of_ort(example: Example, folder: Path, **options: object) -> Path:
    """Quantize with ONNX Runtime's own defaults, or with other options."""
    spec = EngineSpec("ort", "int8", "static", example.write(folder), options=tuple(sorted(options.items())))
    target = folder / "ort"
    target.mkdir()
    return build(get_backend("ort"), spec, example, target) / "model.onnx"


def test_every_product_of_the_plan_is_int8(tmp_path: Path) -> None:
    """Read from the detailed log of the real build, for a convolution and a dense layer."""
    example = conv()
    with opened(RTX, spec_of(example.write(tmp_path)), example) as engine:
        found = engine.coverage(example.feeds(1, 0))
        assert (found.pct, found.opaque_nodes) == (100.0, 0)
        assert sum(row.quantized_nodes for row in found.by_op) == 2
        assert found.provider == "TensorRT-RTX for SM89, simulated in float"


def test_int8_weights_make_a_smaller_plan(tmp_path: Path) -> None:
    """A plan has kernels of its own, so the weights must be large to show: a million of them."""
    weights = np.random.default_rng(0).normal(size=(1024, 1024)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 1024])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 1024])],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "wide.onnx"
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)

    def batches() -> Iterator[Feeds]:
        yield {"x": np.random.default_rng(1).normal(size=(8, 1024)).astype(np.float32)}

    sizes = {}
    for scheme in (None, "static"):
        spec = spec_of(Model.from_onnx(path), scheme)
        ranges, folder = tmp_path / f"ranges-{scheme}", tmp_path / f"engine-{scheme}"
        ranges.mkdir()
        folder.mkdir()
        if scheme:
            RTX.calibrate(spec, batches, ranges)
        RTX.build(spec, ranges if scheme else None, folder)
        engine = RTX.open(spec, folder)
        sizes[scheme] = engine.size_bytes
        engine.close()
    assert sizes[None] - sizes["static"] > 2_500_000


def test_the_simulation_is_of_the_graph_that_was_built(tmp_path: Path) -> None:
    """It rounds as the Q/DQ pairs say: close to float, and not equal to it."""
    example = dense()
    feeds = example.feeds(32, 9)
    with opened(RTX, spec_of(example.write(tmp_path)), example) as engine:
        assert engine.simulated
        assert 20 < sqnr_db(example.compute(feeds), engine.run(feeds)) < 60
        assert any("float simulation" in note for note in engine.notes)


def test_onnx_runtimes_own_pairs_are_refused_before_the_build(tmp_path: Path) -> None:
    """Its default has uint8 activations and an int32 bias; pre-flight says so, and so does the real parser."""
    example = conv()
    path = of_ort(example, tmp_path, activation_type="uint8")
    spec = replace(spec_of(example.write(tmp_path), "qat"), quantized=Model.from_onnx(path))
    with pytest.raises(BuildError, match=r"TensorRT cannot take model\.onnx"), opened(RTX, spec, example):
        pass
    with pytest.raises(BuildError, match="tensorrt_rtx refused"):
        parse(path)


def test_uint8_around_zero_is_taken_by_the_parser_and_refused_here(tmp_path: Path) -> None:
    """The parser only warns and reads 0..255 as -128..127; pre-flight is what stands between that and production."""
    example = dense()
    path = of_ort(example, tmp_path, activation_type="int8", symmetric=True, extra={"QuantizeBias": False})
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.name.endswith("_zero_point") and not tensor.name.startswith("w"):
            tensor.CopyFrom(
                numpy_helper.from_array(np.zeros_like(numpy_helper.to_array(tensor), np.uint8), tensor.name)
            )
    onnx.save_model(model, path)
    with pytest.raises(BuildError, match="saturates"):
        check_graph(path)
    parse(path)
    log = path.with_name("build.log").read_text()
    assert "Defaulting to INT8" in log or "UINT8" in log


CONSTANTS = "float16 h = {11878}, float c = {0.1}, float[1] row = {0.1}, int8 z = {0}"


@pytest.mark.parametrize(
    "scale", ["s = Cast<to = 1>(h)", "s = Mul(c, c)", "s = Squeeze(row)", "s = ReduceMax<keepdims = 0>(row)"]
)
def test_a_scale_that_constants_give_is_taken(scale: str, tmp_path: Path) -> None:
    """By the real parser, which folds whatever computes it, and so by pre-flight."""
    path = written(tmp_path, f"{scale} {PAIR}", CONSTANTS)
    check_graph(path)
    parse(path)
    assert (tmp_path / "model.engine").stat().st_size > 0


def test_dynamic_quantization_is_refused(tmp_path: Path) -> None:
    """DynamicQuantizeLinear is named, with the scheme to use."""
    example = dense()
    target = tmp_path / "dynamic"
    target.mkdir()
    path = build(get_backend("ort"), EngineSpec("ort", "int8", "dynamic", example.write(tmp_path)), example, target)
    spec = replace(spec_of(example.write(tmp_path), "qat"), quantized=Model.from_onnx(path / "model.onnx"))
    with pytest.raises(BuildError, match="find ranges while they run"), opened(RTX, spec, example):
        pass


def test_a_target_that_it_does_not_know(tmp_path: Path) -> None:
    """The list of those it knows is given."""
    example = dense()
    spec = spec_of(example.write(tmp_path), None, compute_capability="SM50")
    with pytest.raises(BuildError, match=r"SM50 is not one that it builds for: .*SM89"), opened(RTX, spec, example):
        pass


def test_without_a_target_and_a_gpu_it_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fix is the option to write; with a target it is available."""
    monkeypatch.setattr("pytest_quant.backends.trt.cuda_gpus", lambda: ((), "there is no NVIDIA GPU here"))
    named = spec_of(dense().write(tmp_path), None)
    found = RTX.availability(replace(named, options=()))
    assert not found.available
    assert not found.broken
    assert "compute_capability" in found.fix
    assert RTX.availability(named).available


@pytest.mark.parametrize(
    ("name", "value"),
    [("compute_capability", "8.9"), ("workspace_mb", 0), ("optimization_level", 9), ("max_batch", "many")],
)
def test_a_wrong_option_is_refused_at_collection(tmp_path: Path, name: str, value: object) -> None:
    """Before anything is built."""
    with pytest.raises(UsageError, match=f"option '{name}'"):
        RTX.check(spec_of(dense().write(tmp_path), None, **{name: value}))


def test_an_engine_of_the_size_of_its_largest_batch(tmp_path: Path) -> None:
    """The profile holds from one sample to the largest batch, and the opt size lies between."""
    example = dense()
    with opened(RTX, spec_of(example.write(tmp_path), None, max_batch=8, opt_batch=4), example) as engine:
        assert engine.run(example.feeds(8, 0))["y"].shape == (8, 10)
    with pytest.raises(UsageError, match="above max_batch"):
        RTX.check(spec_of(example.write(tmp_path), None, max_batch=4, opt_batch=8))
