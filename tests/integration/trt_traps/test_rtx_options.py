"""Options and precisions that the builder shares with native TensorRT, on the real TensorRT-RTX."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from pytest_quant.backends import get_backend
from pytest_quant.backends.trt.build import request_for, run_builder, write_plan
from pytest_quant.backends.trt.builder import LOG_FILE, PLAN_FILE
from pytest_quant.backends.trt.options import BUILDER_KEYS
from pytest_quant.backends.trt.simulated import SimulatedEngine
from pytest_quant.errors import BuildError
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import conv, dense, passthrough
from pytest_quant.testing.conformance.workbench import opened, sqnr_db

RTX = get_backend("trt-rtx")


def spec_of(model: Model, precision: str = "fp32", scheme: str | None = None, **options: object) -> EngineSpec:
    """A spec for one target."""
    named = tuple(sorted({"compute_capability": "SM89", **options}.items()))
    return EngineSpec("trt-rtx", precision, scheme, model, options=named)


def with_options(model: Model, options: dict[str, object]) -> EngineSpec:
    """The same with options whose names are not known here."""
    spec = spec_of(model)
    return replace(spec, options=tuple(sorted({**dict(spec.options), **options}.items())))


def test_float16_is_what_the_layers_read(tmp_path: Path) -> None:
    """Strong types take float16 from the graph; the simulation rounds to its eleven bits and keeps float32 outside."""
    example = conv()
    feeds = example.feeds(8, 3)
    with opened(RTX, spec_of(example.write(tmp_path), "fp16"), example) as engine:
        assert isinstance(engine, SimulatedEngine)
        assert engine.coverage(feeds).pct == 100.0
        found = engine.run(feeds)
        assert found["y"].dtype.name == "float32"
        assert 50 < sqnr_db(example.compute(feeds), found) < 90


def test_a_float_engine_is_no_float16_engine(tmp_path: Path) -> None:
    """Its layers read Float, so coverage in the other precision is nothing."""
    example = conv()
    spec = spec_of(example.write(tmp_path))
    with opened(RTX, spec, example) as engine:
        assert isinstance(engine, SimulatedEngine)
        engine.spec = replace(spec, precision="fp16")
        assert engine.coverage(example.feeds(1, 0)).pct == 0.0


def test_a_model_without_weights_has_no_float16(tmp_path: Path) -> None:
    """What changes nothing must not score as float16."""
    example = passthrough()
    example.proto.graph.ClearField("initializer")
    example.proto.graph.node.pop()
    example.proto.graph.output.pop()
    with (
        pytest.raises(BuildError, match="no float32 weights"),
        opened(RTX, spec_of(example.write(tmp_path), "fp16"), example),
    ):
        pass


@pytest.mark.parametrize(("precision", "scheme"), [("fp32", None), ("int8", "static")])
def test_nodes_without_names_count(tmp_path: Path, precision: str, scheme: str | None) -> None:
    """The parser calls them after their output, and so do we; else nothing would be eligible."""
    example = conv()
    unnamed = onnx.ModelProto()
    unnamed.CopyFrom(example.proto)
    for node in unnamed.graph.node:
        node.name = ""
    example = replace(example, proto=unnamed)
    with opened(RTX, spec_of(example.write(tmp_path), precision, scheme), example) as engine:
        found = engine.coverage(example.feeds(1, 0))
    assert (found.pct, found.opaque_nodes) == (100.0, 0)
    assert sum(row.nodes for row in found.by_op) == 2


def test_the_timing_cache_is_kept(tmp_path: Path) -> None:
    """The real builder takes back what it wrote."""
    file = tmp_path / "timing"
    example = dense()
    for _ in range(2):
        with opened(RTX, spec_of(example.write(tmp_path), timing_cache=str(file)), example):
            assert file.stat().st_size > 0


@pytest.mark.parametrize(
    "options",
    [
        {"native_instancenorm": False}, {"tf32": True}, {"workspace_mb": 64}, {"optimization_level": 1},
        {"max_batch": 8, "opt_batch": 4}, {"shapes": {"x": [(1, 64), (2, 64), (3, 64)]}}, {"beside": "fp16"},
        {"timing_cache": "timing"},
    ],
    ids=lambda options: next(iter(options)),
)  # fmt: skip
def test_the_real_binding_has_what_an_option_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object]
) -> None:
    """Each is a name in the binding, a build with it comes to a plan, and the log calls nothing unsupported."""
    monkeypatch.chdir(tmp_path)
    example = dense()
    RTX.build(with_options(example.write(tmp_path), options), None, tmp_path)
    assert (tmp_path / PLAN_FILE).stat().st_size > 0
    assert "is unsupported" not in (tmp_path / LOG_FILE).read_text("utf-8")


def test_every_option_of_the_table_is_tried() -> None:
    """A new one is built with too, above."""
    marks = vars(test_the_real_binding_has_what_an_option_sets)["pytestmark"]
    tried = {name for options in marks[0].args[1] for name in options} | {"compute_capability"}
    assert tried == set(BUILDER_KEYS)


@pytest.mark.parametrize("option", [{"version_compatible": True}, {"hardware_compatible": "AMPERE_PLUS"}])
def test_in_the_place_of_tensorrt_it_builds_without_what_it_lacks(tmp_path: Path, option: dict[str, object]) -> None:
    """A plan for other versions needs a library that TensorRT-RTX has not; the plan is not judged, accuracy is."""
    example = dense()
    spec = replace(with_options(example.write(tmp_path), option), backend="trt")
    write_plan(spec, None, tmp_path, module="tensorrt_rtx")
    assert (tmp_path / PLAN_FILE).stat().st_size > 0


def test_too_little_workspace_is_answered_with_more(tmp_path: Path) -> None:
    """No operator is at fault."""
    with pytest.raises(BuildError, match="within workspace limit") as caught:
        RTX.build(spec_of(conv().write(tmp_path), workspace_mb=1), None, tmp_path)
    assert "larger workspace_mb" in str(caught.value)


def test_implicit_int8_is_refused_where_there_is_none(tmp_path: Path) -> None:
    """The real binding has no flag for it, as TensorRT 11 has none."""
    model = dense().write(tmp_path)
    request = replace(
        request_for(spec_of(model), tmp_path / "dense.onnx", module="tensorrt_rtx"), calibration="entropy"
    )
    with pytest.raises(BuildError, match="has no implicit INT8"):
        run_builder(request, "engine")


def test_a_plan_is_not_loaded_without_a_gpu(tmp_path: Path) -> None:
    """`deserialize` answers with nothing and an error of CUDA in its log: an error of ours, in a process that lives."""
    from pytest_quant.backends.trt.gpu_engine import Plan
    from pytest_quant.environment.gpu import find_gpus

    if find_gpus():
        pytest.skip("there is a GPU here")
    tensorrt_rtx = pytest.importorskip("tensorrt_rtx")
    example = dense()
    RTX.build(spec_of(example.write(tmp_path)), None, tmp_path)
    with pytest.raises(BuildError, match="does not take the plan"):
        Plan(tensorrt_rtx, tmp_path / "model.engine")
