"""The real TensorRT-RTX as parser and builder: what it takes, its options, and what it tells of layers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from pytest_quant.backends import get_backend
from pytest_quant.backends.onnx_files import model_file, read_graph
from pytest_quant.backends.trt.build import LOG_FILE, PLAN_FILE, request_for, run_builder
from pytest_quant.backends.trt.coverage import count_layers, layers_in_log, ops_of
from pytest_quant.backends.trt.network import GRAPH_FILE, check_graph
from pytest_quant.backends.trt.options import RTX_KEYS
from pytest_quant.backends.trt.provider_engine import layers_in_summary
from pytest_quant.backends.trt.simulated import SimulatedEngine
from pytest_quant.errors import BuildError
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import Example, build, conv, dense, open_example, sqnr_db
from tests.integration.ort_traps.test_bodies import MODELS
from tests.integration.ort_traps.test_bodies import written as written_with_bodies
from tests.support.measuring import numbers
from tests.unit.backends.trt.test_network import PAIR, written

RTX = get_backend("trt-rtx")


def spec_of(model: Model, precision: str = "fp32", scheme: str | None = None, /, **options: object) -> EngineSpec:
    """A spec for one target."""
    named = tuple(sorted({"compute_capability": "SM89", **options}.items()))
    return EngineSpec("trt-rtx", precision, scheme, model, options=named)


def parse(path: Path) -> None:
    """Let the real parser and builder say what they think of a file."""
    run_builder(request_for(spec_of(Model.from_onnx(path)), path, module="tensorrt_rtx"), "engine")


def of_ort(example: Example, folder: Path, **options: object) -> Path:
    """Quantize with ONNX Runtime's own defaults, or with other options."""
    spec = EngineSpec("ort", "int8", "static", example.write(folder), options=tuple(sorted(options.items())))
    target = folder / "ort"
    target.mkdir()
    return build(get_backend("ort"), spec, example, target) / "model.onnx"


def test_onnx_runtimes_own_pairs_are_refused_before_the_build(tmp_path: Path) -> None:
    """Its default has uint8 activations and an int32 bias; pre-flight says so, and so does the real parser."""
    example = conv()
    path = of_ort(example, tmp_path, activation_type="uint8")
    spec = replace(spec_of(example.write(tmp_path), "int8", "given"), quantized=Model.from_onnx(path))
    with pytest.raises(BuildError, match=r"TensorRT cannot take model\.onnx"), open_example(RTX, spec, example):
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


@pytest.mark.parametrize(
    ("constants", "said"),
    [
        ("float s = {0.0}, int8 z = {0}", "Scale coefficients must all be positive"),
    ],
)
def test_a_pair_that_the_parser_refuses_by_itself(tmp_path: Path, constants: str, said: str) -> None:
    """With the node and the cause, so that nothing here looks for it before."""
    path = written(tmp_path, PAIR, constants)
    check_graph(path)
    with pytest.raises(BuildError, match=f"node 'round' \\(QuantizeLinear\\): .*{said}") as caught:
        parse(path)
    assert "another scheme" in str(caught.value.fix)


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


def test_a_target_that_it_does_not_know(tmp_path: Path) -> None:
    """The list of those it knows is given."""
    example = dense()
    spec = spec_of(example.write(tmp_path), compute_capability="SM50")
    with (
        pytest.raises(BuildError, match=r"SM50 is no target that it builds for: .*SM89"),
        open_example(RTX, spec, example),
    ):
        pass


def test_without_a_target_and_a_gpu_it_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fix is the option to write; with a target it is available."""
    monkeypatch.setattr("pytest_quant.backends.trt.cuda_gpus", lambda: ((), "there is no NVIDIA GPU here"))
    named = spec_of(dense().write(tmp_path))
    result = RTX.availability(replace(named, options=()))
    assert not result.available
    assert not result.broken
    assert "compute_capability" in result.fix
    assert RTX.availability(named).available


def test_float16_is_what_the_layers_read(tmp_path: Path) -> None:
    """Strong types take float16 from the graph; the simulation rounds to its eleven bits and keeps float32 outside."""
    example = conv()
    feeds = example.feeds(8, 3)
    with open_example(RTX, spec_of(example.write(tmp_path), "fp16"), example) as engine:
        assert isinstance(engine, SimulatedEngine)
        assert engine.coverage(feeds).pct == 100.0
        result = engine.run(feeds)
        assert result["y"].dtype.name == "float32"
        assert 50 < sqnr_db(example.compute(feeds), result) < 90


@pytest.mark.parametrize(("precision", "scheme"), [("fp32", None), ("int8", "static")])
def test_nodes_without_names_count(tmp_path: Path, precision: str, scheme: str | None) -> None:
    """The parser calls them after their output, and so do we; else nothing would be eligible."""
    example = conv()
    unnamed = onnx.ModelProto()
    unnamed.CopyFrom(example.proto)
    for node in unnamed.graph.node:
        node.name = ""
    example = replace(example, proto=unnamed)
    with open_example(RTX, spec_of(example.write(tmp_path), precision, scheme), example) as engine:
        result = engine.coverage(example.feeds(1, 0))
    assert (result.pct, result.opaque_nodes) == (100.0, 0)
    assert sum(row.nodes for row in result.by_op) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"tf32": True}, {"workspace_mb": 64}, {"optimization_level": 1},
        {"max_batch": 8}, {"shapes": {"x": [(1, 64), (2, 64), (3, 64)]}}, {"beside": "fp16"},
        {"timing_cache": "timing"}, {"libraries": [np.linalg._umath_linalg.__file__]},
    ],
    ids=lambda options: next(iter(options)),
)  # fmt: skip
def test_the_real_binding_has_what_an_option_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object]
) -> None:
    """Each is a name in the binding, a build with it comes to a plan, and the log calls nothing unsupported."""
    monkeypatch.chdir(tmp_path)
    example = dense()
    RTX.build(spec_of(example.write(tmp_path), **options), None, tmp_path)
    assert (tmp_path / PLAN_FILE).stat().st_size > 0
    assert "is unsupported" not in (tmp_path / LOG_FILE).read_text("utf-8")


def test_every_option_of_the_table_is_tried() -> None:
    """A new one is built with too, above."""
    marks = vars(test_the_real_binding_has_what_an_option_sets)["pytestmark"]
    tried = {name for options in marks[0].args[1] for name in options} | {"compute_capability"}
    assert tried == set(RTX_KEYS)


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
    from pytest_quant.backends.trt.plan import Plan
    from pytest_quant.environment.gpu import find_gpus

    if find_gpus():
        pytest.skip("there is a GPU here")
    tensorrt_rtx = pytest.importorskip("tensorrt_rtx")
    example = dense()
    RTX.build(spec_of(example.write(tmp_path)), None, tmp_path)
    with pytest.raises(BuildError, match="does not take the plan"):
        Plan(tensorrt_rtx, tmp_path / "model.engine")


def test_the_log_lists_layers_with_types_all_the_same(tmp_path: Path) -> None:
    """One line for each layer, with the types that it reads; of a network that was compiled whole it is one line."""
    trt = pytest.importorskip("tensorrt_rtx")
    example = conv()
    folder = build(RTX, spec_of(example.write(tmp_path), "int8", "static"), example, tmp_path)
    log = _build(trt, folder / GRAPH_FILE)
    assert layers_in_log(log) == []
    ops = ops_of(read_graph(folder / GRAPH_FILE).graph)
    layers = layers_in_summary(log, ops)
    assert [(layer.kind, layer.input_types) for layer in layers] == [("Myelin", ("Float",))]
    assert layers[0].name.startswith("{ForeignNode[")
    result = count_layers(layers, ops, "int8", "TensorRT-RTX", {})
    assert (result.pct, result.opaque_nodes) == (None, sum(op in ("Conv", "Gemm", "MatMul") for op in ops.values()))


def _build(module: Any, graph: Path) -> str:
    """Build with the default verbosity and return what was logged."""
    lines: list[str] = []

    class Logger(module.ILogger):  # type: ignore[misc]
        """Keeps every severity, as ONNX Runtime does for a detailed log."""

        def __init__(self) -> None:
            module.ILogger.__init__(self)

        def log(self, severity: object, msg: str) -> None:
            lines.append(f"[{str(severity).rpartition('.')[2]}] {msg}")

    logger = Logger()
    builder = module.Builder(logger)
    network = builder.create_network(0)
    parser = module.OnnxParser(network, logger)
    assert parser.parse_from_file(str(graph))
    config = builder.create_builder_config()
    assert config.profiling_verbosity == module.ProfilingVerbosity.LAYER_NAMES_ONLY
    config.num_compute_capabilities = 1
    config.set_compute_capability(module.ComputeCapability.SM89, 0)
    profile = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        entry = network.get_input(index)
        sizes = [8 if size < 0 else size for size in (entry.shape[axis] for axis in range(len(entry.shape)))]
        profile.set_shape(entry.name, sizes, sizes, sizes)
    config.add_optimization_profile(profile)
    assert builder.build_serialized_network(network, config) is not None
    return "\n".join(lines)


@pytest.mark.parametrize(("name", "floats", "hidden"), [("if", 0, 2), ("loop", 1, 0), ("scan", 1, 0), ("nested", 0, 2)])
def test_products_of_bodies_count(name: str, floats: int, hidden: int, tmp_path: Path) -> None:
    """One in a loop is float in the plan, which does not tell of branches; the head alone would read as all of it."""
    proto = onnx.load(model_file(written_with_bodies(tmp_path, MODELS[name])))
    example = Example(name, proto, (), lambda _: {}, lambda n, seed: {"x": numbers(n, 16, seed=seed)})
    with open_example(RTX, spec_of(example.write(tmp_path), "int8", "static"), example) as engine:
        result = engine.coverage(example.feeds(3, 9))
    assert result.pct == pytest.approx(100 / (1 + floats + hidden))
    assert result.opaque_nodes == hidden
