"""Traps of ONNX Runtime's quantizers: models that they break, skip or refuse."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from pytest_quant.backends import Feeds, Outputs, get_backend
from pytest_quant.errors import BuildError
from pytest_quant.spec import Model
from pytest_quant.testing.conformance.examples import Example, conv, dense, sqnr_db
from tests.integration.openvino_traps.graphs import normal, write
from tests.integration.ort_traps.bench import engine_file, engine_of, quantized, spec_of

SCHEMES = ("static", "dynamic", "weight-only")


def saved(proto: onnx.ModelProto, folder: Path) -> Model:
    """Write a model that an example was turned into."""
    path = folder / "changed.onnx"
    path.write_bytes(proto.SerializeToString())
    return Model.from_onnx(path)


def assert_good(model: Model, scheme: str, example: Example, pct: object = 100.0) -> None:
    """Build, open and compare with the example's own computation."""
    feeds = example.feeds(16, 99)
    with engine_of(spec_of(model, scheme), lambda: iter([example.feeds(32, 1)])) as engine:
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > (8 if scheme == "weight-only" else 20)
        assert engine.coverage(feeds).pct == pct


def opset_12() -> onnx.ModelProto:
    """`conv` as an old exporter writes it."""
    proto = conv().proto
    proto.opset_import[0].version = 12
    return proto


def test_scales_per_channel_below_opset_13(tmp_path: Path) -> None:
    """An opset 12 model is upgraded first, and what is built loads and is right."""
    assert_good(saved(opset_12(), tmp_path), "static", conv())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_weights_in_constant_nodes(tmp_path: Path, scheme: str) -> None:
    """Weights held by Constant nodes are quantized like any other; ORT's dynamic quantizer alone raises ValueError."""
    proto = dense().proto
    for tensor in list(proto.graph.initializer):
        proto.graph.node.insert(0, helper.make_node("Constant", [], [tensor.name], value=tensor))
    del proto.graph.initializer[:]
    assert_good(saved(proto, tmp_path), scheme, dense())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_symbolic_shape_inference_that_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    """Shape inference gives up on an operator it does not know; the model is prepared without it, and no file stays."""
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    example = distances()
    with pytest.raises(Exception, match="Incomplete symbolic shape inference"):
        SymbolicShapeInference.infer_shapes(example.proto)
    for file in work.iterdir():
        file.unlink()
    assert_good(example.write(tmp_path), scheme, example)
    assert list(work.iterdir()) == []


def distances() -> Example:
    """`dense` and then the distances between its outputs, by an operator that shape inference does not know."""
    inner = dense()
    proto = inner.proto
    proto.graph.node.append(
        helper.make_node("CDist", ["y", "y"], ["d"], name="distances", domain="com.microsoft", metric="sqeuclidean")
    )
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("d", onnx.TensorProto.FLOAT, ["n", "m"]))

    def compute(feeds: Feeds) -> Outputs:
        y = inner.compute(feeds)["y"]
        return {"d": ((y[:, None] - y[None]) ** 2).sum(axis=2)}

    return Example("distances", proto, inner.nodes, compute, inner.feeds)


GEMMS = """(float[4, 8] x, bool yes) => (float[4, 3] y) {
    [first] a = Gemm<alpha = 0.5, beta = 0.25, transB = 1>(x, turned, wide) [relu] r = Relu(a)
    [second] b = Gemm<alpha = -2.0>(r, square, single) [clip] c = Relu(b)
    [third] d = Gemm<beta = -3.0>(c, square, rows) [branch] e = If(yes) <
        then_branch = inside () => (float[4, 3] p) { [fourth] p = Gemm<alpha = 3.0>(d, last, columns) },
        else_branch = beside () => (float[4, 3] q) { [fifth] q = MatMul(d, last) }>
    [end] y = Identity(e) }"""
"""Each Gemm has factors or a bias that ONNX Runtime's quantizers get wrong; two share a weight, one is in a body."""


@pytest.mark.parametrize(("scheme", "left"), [("static", ("fourth",)), ("dynamic", ()), ("weight-only", ())])
def test_factors_and_biases_of_a_gemm(tmp_path: Path, scheme: str, left: tuple[str, ...]) -> None:
    """All four are quantized where the scheme takes bodies, and every engine is as close as without factors."""
    weights = {
        "turned": normal(8, 8),
        "wide": normal(8, seed=1) * 9,
        "square": normal(8, 8, seed=2),
        "single": normal(1, 1, seed=3),
        "rows": normal(4, 8, seed=4),
        "last": normal(8, 3, seed=5),
        "columns": normal(4, 1, seed=6),
    }
    model = write(tmp_path / "gemms.onnx", GEMMS, **weights)
    w = {name: array.astype(np.float64) for name, array in weights.items()}

    def compute(x: Any) -> Any:
        a = np.maximum(0.5 * x @ w["turned"].T + 0.25 * w["wide"], 0)
        c = np.maximum(-2 * a @ w["square"] + w["single"], 0)
        return 3 * (c @ w["square"] - 3 * w["rows"]) @ w["last"] + w["columns"]

    feeds = [{"x": normal(4, 8, seed=seed, scale=1.0), "yes": np.array(seed % 2 == 1)} for seed in range(20)]
    with engine_of(spec_of(model, scheme), lambda: iter(feeds)) as engine:
        outputs = engine.run(feeds[9])
        assert sqnr_db({"y": compute(feeds[9]["x"])}, outputs) > (10 if scheme == "weight-only" else 25)
        assert engine.coverage(feeds[9]).float_nodes == left


BEYOND_QUANTIZERS = {
    "static": """(float[n, 8, 6] x) => (float[n, 12, 6] y) { [conv] h = Conv<pads = [1, 1]>(x, kernel)
        [hard] y = ConvTranspose<group = 4, pads = [1, 1]>(h, V, b) }""",
    "dynamic": "(float[3, n, 8] x) => (float[3, n, 8] y) { [hard] h = MatMul(x, V) [dense] y = MatMul(h, W) }",
    "weight-only": """(float[n, 8] x) => (float[n, 8] y) { [dense] h = MatMul(x, W) [wide] d = Cast<to = 11>(h)
        [hard] p = MatMul(d, V) [narrow] y = Cast<to = 1>(p) }""",
}
"""By scheme a net whose node ``hard`` its quantizer fails on, or writes in a form that no session opens or runs."""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_a_quantizer_cannot_take_is_left_in_float(tmp_path: Path, scheme: str) -> None:
    """Groups with a bias, stacked matrices, doubles: a note names the node, and its advice works where it has some."""
    kind = np.float64 if scheme == "weight-only" else np.float32
    shape = {"static": (8, 3, 3), "dynamic": (3, 8, 8), "weight-only": (8, 8)}[scheme]
    weights = {"V": normal(*shape).astype(kind), "W": normal(8, 8), "b": normal(12), "kernel": normal(8, 8, 3)}
    text = BEYOND_QUANTIZERS[scheme]
    used = {name: each for name, each in weights.items() if re.search(rf"\b{name}\b", text)}
    model = write(tmp_path / "hard.onnx", text, **used)
    feeds = {"x": normal(*((3, 5, 8) if scheme == "dynamic" else (5, 8, 6) if scheme == "static" else (5, 8)))}
    float_net = onnxruntime.InferenceSession(str(model.path), providers=["CPUExecutionProvider"])
    reference = dict(zip(["y"], float_net.run(None, feeds), strict=True))
    with engine_of(spec_of(model, scheme), lambda: iter([feeds])) as engine:
        assert sqnr_db(reference, engine.run(feeds)) > (10 if scheme == "weight-only" else 30)
        coverage = engine.coverage(feeds)
        (note,) = [each for each in engine.notes if "7 bits" not in each]
        assert (coverage.float_nodes, coverage.scheme_pct) == (("hard",), 100.0)
    assert note.startswith("ONNX Runtime's quantizer cannot take hard: left in float")
    assert note.endswith("options={'per_channel': False} may quantize more") is (scheme != "weight-only")
    with engine_of(spec_of(model, scheme, per_channel=False), lambda: iter([feeds])) as engine:
        assert any("cannot take" in each for each in engine.notes) is (scheme == "weight-only")
        assert sqnr_db(reference, engine.run(feeds)) > (10 if scheme == "weight-only" else 30)


def test_shapes_of_weights_that_an_exporter_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch writes them; where symbolic inference gives up they stay, and ORT, which transposes a Gemm's, trips."""
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    def give_up(*_: object) -> None:
        raise RuntimeError("Incomplete symbolic shape inference")

    monkeypatch.setattr(SymbolicShapeInference, "infer_shapes", give_up)
    proto = conv().proto
    for tensor in proto.graph.initializer:
        proto.graph.value_info.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    dense_macs, conv_macs = 288 * 10, 8 * 36 * 9
    share = pytest.approx(100 * dense_macs / (dense_macs + conv_macs))
    assert_good(saved(proto, tmp_path), "dynamic", conv(), share)


def test_dynamic_leaves_convolutions_in_float(tmp_path: Path) -> None:
    """Dynamic quantizes the dense layer and not the convolution, which would be slower, unless it is asked to."""
    feeds = conv().feeds(1, 99)
    model = conv().write(tmp_path)
    with engine_of(spec_of(model, "dynamic"), lambda: iter(())) as engine:
        assert {row.op_type for row in engine.coverage(feeds).by_op if row.quantized_nodes} & {"DynamicQuantizeMatMul"}
        assert 0 < (engine.coverage(feeds).pct or 0) < 100
    with engine_of(spec_of(model, "dynamic", op_types="all"), lambda: iter(())) as engine:
        assert "ConvInteger" in {row.op_type for row in engine.coverage(feeds).by_op}
        assert engine.coverage(feeds).pct == 100.0


def test_dynamic_of_a_model_with_nothing_but_convolutions(tmp_path: Path) -> None:
    """Where there is no matrix product, dynamic takes the convolutions, rather than being a no-op."""
    proto = conv().proto
    del proto.graph.node[2:]
    proto.graph.node[1].output[0] = "y"
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 8, 6, 6]))
    with engine_of(spec_of(saved(proto, tmp_path), "dynamic"), lambda: iter(())) as engine:
        assert engine.coverage(conv().feeds(1, 99)).pct == 100.0


def test_seven_bit_weights(tmp_path: Path) -> None:
    """With reduce_range int8 weights stay within +-64, so that two products fit into 16 bits."""
    for reduce_range, most in ((True, 64), (False, 127)):
        spec = spec_of(dense().write(tmp_path), "static", reduce_range=reduce_range)
        folder = quantized(spec, lambda: iter([dense().feeds(8, 1)]), tmp_path / str(reduce_range))
        weights = [
            numpy_helper.to_array(tensor)
            for tensor in onnx.load(engine_file(folder)).graph.initializer
            if tensor.data_type == onnx.TensorProto.INT8 and len(tensor.dims) == 2
        ]
        assert max(int(np.abs(array.astype(int)).max()) for array in weights) == most


def test_unquantizable_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the quantizer raises becomes one error with its cause and what to try."""
    import onnxruntime.quantization

    def fail(*_: object, **__: object) -> None:
        raise ValueError("Quantization parameters are not specified for param z")

    monkeypatch.setattr(onnxruntime.quantization, "quantize_static", fail)
    with pytest.raises(BuildError, match="to quantize dense to ort-int8-static") as caught:
        quantized(spec_of(dense().write(tmp_path), "static"), lambda: iter([dense().feeds(8, 1)]), tmp_path / "b")
    assert "param z" in str(caught.value)
    assert "exclude" in str(caught.value)


def test_large_models_keep_their_weights_beside_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit of one protobuf file every scheme writes external data, and the size counts it."""
    monkeypatch.setattr("pytest_quant.backends.onnx_files.EMBED_BYTES", 0)
    model = saved(opset_12(), tmp_path)
    for scheme in SCHEMES:
        spec = spec_of(model, scheme)
        folder = quantized(spec, lambda: iter([conv().feeds(8, 1)]), tmp_path / scheme)
        files = [file.stat().st_size for file in folder.iterdir()]
        assert len(files) == 2
        with get_backend("ort").open(spec, folder) as engine:
            assert engine.size_bytes == sum(files)
            feeds = conv().feeds(4, 99)
            assert sqnr_db(conv().compute(feeds), engine.run(feeds)) > 8


def test_nothing_is_printed_and_logging_stays_as_it_was(tmp_path: Path) -> None:
    """Building all schemes prints nothing, and ORT's 4-bit module does not get to configure the root logger."""
    conv().write(tmp_path)
    program = (
        "import logging, pathlib\n"
        "from pytest_quant.testing.conformance.examples import conv\n"
        "from pytest_quant.spec import Calibration, Model\n"
        "from tests.integration.ort_traps.bench import engine_of, spec_of\n"
        f"model = Model.from_onnx({str(tmp_path / 'conv.onnx')!r})\n"
        "methods = {'entropy': 'static', 'percentile': 'static', 'minmax': 'dynamic', '': 'weight-only'}\n"
        "for method, scheme in methods.items():\n"
        "    spec = spec_of(model, scheme, calibration=Calibration(method=method))\n"
        "    with engine_of(spec, lambda: iter([conv().feeds(4, 1)])) as engine:\n"
        "        engine.run(conv().feeds(1, 1)); engine.coverage(conv().feeds(1, 1))\n"
        "assert not logging.getLogger().handlers and logging.getLogger().level == logging.WARNING\n"
    )
    root = Path(__file__).parents[3]
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


SHARED_BIAS = """<ir_version: 8, opset_import: ["" : 17]> chain (float[n, 4, 2, 2] x) => (float[n, 4, 2, 2] y) {
    b0 = Conv(x, w0, b) b1 = Conv(b0, w1, b) b2 = Conv(b1, w2, b) b3 = Conv(b2, w3, b) y = Neg(b3) }"""
"""Outputs have the names that the quantizer would give to copies of the bias, whatever number it begins with."""


def test_outputs_called_as_copies_of_a_shared_bias(tmp_path: Path) -> None:
    """Every convolution adds the bias, and the engine gives what the four products and sums give in float64."""
    rng = np.random.default_rng(0)
    weights = {f"w{index}": rng.normal(size=(4, 4, 1, 1)).astype(np.float32) for index in range(4)}
    bias = rng.normal(size=4).astype(np.float32)
    proto = onnx.parser.parse_model(SHARED_BIAS)
    for name, array in (*weights.items(), ("b", bias)):
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    x = rng.normal(size=(64, 4, 2, 2)).astype(np.float32)
    states = x.astype(np.float64)
    for weight in weights.values():
        states = np.einsum("oi,nihw->nohw", weight[:, :, 0, 0], states) + bias[:, None, None]
    with engine_of(spec_of(saved(proto, tmp_path), "static"), lambda: iter([{"x": x}])) as engine:
        assert sqnr_db({"y": -states}, engine.run({"x": x})) > 25
