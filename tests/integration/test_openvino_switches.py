"""The graph with switches of the backend ``openvino`` holds what its engine rounds, and the float model under it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest

from pytest_quant.backends import Feeds, get_backend
from pytest_quant.backends.feeds import Outputs
from pytest_quant.backends.switchable import Range, SwitchableGraph
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import sqnr_db
from tests.integration.openvino_traps.graphs import Array, normal, write

OPENVINO = get_backend("openvino")
_EIGHT_BITS = ("overflow_fix", "disable")


def rows(seed: int) -> Feeds:
    """Sixteen samples of 24 values."""
    return {"x": normal(16, 24, seed=seed, scale=1.0)}


def images(seed: int) -> Feeds:
    """Four images of three channels."""
    return {"x": normal(4, 3, 8, 8, seed=seed, scale=1.0)}


def tokens(seed: int) -> Feeds:
    """Four sequences of six vectors."""
    return {"x": normal(4, 6, 64, seed=seed, scale=1.0)}


FIRST, LAST = normal(24, 16, seed=1) * np.linspace(0.1, 3.0, 16, dtype=np.float32), normal(16, 5, seed=2)


def dense(path: Path) -> Model:
    """Two products, whose weights have channels of other sizes."""
    text = """(float[n, 24] x) => (float[n, 5] y) {
        [first] a = MatMul(x, v) [relu] r = Relu(a) [last] y = MatMul(r, w) }"""
    return write(path, text, v=FIRST, w=LAST)


def residual(path: Path) -> Model:
    """Convolutions with a shortcut around one, one of single channels, and a dense layer."""
    text = """(float[n, 3, 8, 8] x) => (float[n, 4] y) {
        [first] a = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(x, u, b) [relu] r = Relu(a)
        [inner] c = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(r, v, b) [add] d = Add(c, r) [clip] e = Relu(d)
        [depth] f = Conv<kernel_shape = [3, 3], group = 8>(e, s) [sigmoid] g = Sigmoid(f)
        [pool] h = GlobalAveragePool(g) [flat] i = Flatten(h) [dense] y = Gemm<transB = 1>(i, w, k) }"""
    weights = {"u": normal(8, 3, 3, 3), "b": normal(8), "v": normal(8, 8, 3, 3, seed=2), "s": normal(8, 1, 3, 3)}
    return write(path, text, **weights, w=normal(4, 8), k=normal(4))


def corrected(path: Path) -> Model:
    """Two convolutions of a fixed batch, so that NNCF finds the bias behind the last."""
    text = """(float[4, 3, 8, 8] x) => (float[4, 8, 8, 8] y) {
        [first] a = Conv<pads = [1, 1, 1, 1]>(x, v) [relu] r = Relu(a)
        [last] c = Conv<pads = [1, 1, 1, 1]>(r, w) [bias] y = Add(c, b) }"""
    return write(path, text, v=normal(8, 3, 3, 3), w=normal(8, 8, 3, 3), b=normal(1, 8, 1, 1))


def attention(path: Path) -> Model:
    """One head of attention around which values pass, whose queries and keys have one weight."""
    text = """(float[n, 6, 64] x) => (float[n, 6, 64] y) {
        [norm] h = LayerNormalization(x, g, b) [query] q = MatMul(h, v) [key] k = MatMul(x, v)
        [value] u = MatMul(h, w) [turn] t = Transpose<perm = [0, 2, 1]>(k) [score] s = MatMul(q, t)
        [soft] p = Softmax(s) [mix] o = MatMul(p, u)
        [out] z = MatMul(o, m) [plus] a = Add(z, b) [sum] y = Add(x, a) }"""
    weights = {"v": normal(64, 64, scale=0.06), "w": normal(64, 64, seed=3), "m": normal(64, 64, seed=4)}
    return write(path, text, **weights, g=normal(64) + 1, b=normal(64))


@dataclass(frozen=True)
class Opened:
    """A graph with switches, and over one batch what the engine and the float model give."""

    graph: SwitchableGraph
    feeds: Feeds
    engine: Outputs
    float: Outputs
    file: Path

    def alone(self, place: int) -> Array:
        """Return the output with one site rounded."""
        off = [each for each in range(len(self.graph.sites)) if each != place]
        return self.graph.run(self.feeds, off)["y"]


@contextmanager
def opened(spec: EngineSpec, feeds: Callable[[int], Feeds], work: Path) -> Iterator[Opened]:
    """Build an engine over four batches, and open it, its graph and its float model over a fifth one."""
    folders = [work / name for name in ("ranges", "engine", "switches", "float")]
    for folder in folders:
        folder.mkdir()
    ranges, engine_folder, switches, float_folder = folders
    is_static = spec.scheme == "static"
    if is_static:
        OPENVINO.calibrate(spec, lambda: (feeds(seed) for seed in range(4)), ranges)
    OPENVINO.build(spec, ranges if is_static else None, engine_folder)
    reference = EngineSpec("openvino", "fp32", None, spec.model)
    OPENVINO.build(reference, None, float_folder)
    graph = OPENVINO.switches(spec, engine_folder, switches)
    assert graph is not None
    assert OPENVINO.switches(reference, float_folder, switches) is None
    with OPENVINO.open(spec, engine_folder) as engine, OPENVINO.open(reference, float_folder) as floats, graph:
        batch = feeds(9)
        yield Opened(graph, batch, engine.run(batch), floats.run(batch), engine_folder / "model.xml")


def fake_quantized(values: Array, low: Any, high: Any) -> Array:
    """Round to 256 levels, the ends among them."""
    step = (np.float64(high) - low) / 255
    levels = np.rint((np.clip(values.astype(np.float64), low, high) - low) / step)
    return np.asarray(levels * step + low, np.float32)


def rounded_weight(weight: Array) -> Array:
    """Round to 127 levels on either side of 0, one scale for each output."""
    step = np.abs(weight).max(axis=0, keepdims=True) / 127
    return np.asarray(np.rint(weight / step) * step, np.float32)


NETWORKS = [
    pytest.param(dense, rows, (), id="dense"),
    pytest.param(residual, images, (), id="residual"),
    pytest.param(residual, images, (("overflow_fix", "enable"),), id="residual-seven-bits"),
    pytest.param(corrected, images, (), id="corrected"),
    pytest.param(corrected, images, (("fast_bias_correction", False),), id="corrected-slowly"),
    pytest.param(attention, tokens, (), id="attention"),
    pytest.param(attention, tokens, (("preset", "mixed"),), id="attention-mixed"),
    pytest.param(attention, tokens, (("model_type", "transformer"),), id="attention-smoothed"),
]


@pytest.mark.parametrize(("network", "feeds", "options"), NETWORKS)
def test_from_the_float_model_to_the_engine(
    network: Callable[[Path], Model], feeds: Callable[[int], Feeds], options: tuple[Any, ...], tmp_path: Path
) -> None:
    """All off is the float model, all on the engine but for values that fall half way between two levels."""
    spec = EngineSpec("openvino", "int8", "static", network(tmp_path / "net.onnx"), options=options)
    with opened(spec, feeds, tmp_path) as case:
        places = range(len(case.graph.sites))
        assert sqnr_db(case.float, case.graph.run(case.feeds, places)) > 80
        assert sqnr_db(case.engine, case.graph.run(case.feeds)) > sqnr_db(case.float, case.engine) + 12
        assert all(sqnr_db(case.float, {"y": case.alone(place)}) < 120 for place in places)


def test_each_switch_by_itself(tmp_path: Path) -> None:
    """It changes the output by what NumPy's fake quantization of that tensor does; weights have a scale per channel."""
    spec = EngineSpec("openvino", "int8", "static", dense(tmp_path / "net.onnx"), options=(_EIGHT_BITS,))
    with opened(spec, rows, tmp_path) as case:
        x, hidden = case.feeds["x"], np.maximum(case.feeds["x"] @ FIRST, 0)
        sites = {site.tensor: place for place, site in enumerate(case.graph.sites)}
        assert list(sites) == ["x", "v", "r", "w"]
        assert [site.nodes for site in case.graph.sites] == [("first",), ("first",), ("first", "last"), ("last",)]
        assert [site.is_weight for site in case.graph.sites] == [False, True, False, True]
        ends = [site.range for site in case.graph.sites]
        assert ends[1] is ends[3] is None
        assert ends[0] is not None
        assert ends[2] is not None
        expected = {
            "x": np.maximum(fake_quantized(x, *ends[0]) @ FIRST, 0) @ LAST,
            "v": np.maximum(x @ rounded_weight(FIRST), 0) @ LAST,
            "r": fake_quantized(hidden, *ends[2]) @ LAST,
            "w": hidden @ rounded_weight(LAST),
        }
        for tensor, place in sites.items():
            assert sqnr_db({"y": expected[tensor]}, {"y": case.alone(place)}) > 80, tensor


@pytest.mark.parametrize("preset", ["performance", "mixed"])
def test_ranges(preset: str, tmp_path: Path) -> None:
    """They are found over the float model, and given back round as far below 0 as above, or from end to end."""
    options = (_EIGHT_BITS, ("preset", preset))
    spec = EngineSpec("openvino", "int8", "static", dense(tmp_path / "net.onnx"), options=options)
    with opened(spec, rows, tmp_path) as case:
        x, hidden = case.feeds["x"], np.maximum(case.feeds["x"] @ FIRST, 0)
        found = case.graph.find_ranges(case.feeds)
        assert list(found) == [0, 2]
        assert found[0] == pytest.approx((x.min(), x.max()))
        assert found[2] == pytest.approx((0.0, hidden.max()), rel=1e-5)
        step = 4.0 / 127 if preset == "performance" else 5.07 / 255
        low = -128 * step if preset == "performance" else -round(1.07 / step) * step
        given = case.graph.run(case.feeds, [1, 2, 3], {0: Range(-1.07, 4.0)})
        expected = np.maximum(fake_quantized(x, low, low + 255 * step) @ FIRST, 0) @ LAST
        assert sqnr_db({"y": expected}, given) > 80


@pytest.mark.parametrize("preset", ["performance", "mixed"])
def test_a_range_of_nothing(preset: str, tmp_path: Path) -> None:
    """A tensor that is 0 in all samples is 0 and no NaN: what is added to the input then leaves it as it is."""
    spec = EngineSpec("openvino", "int8", "static", attention(tmp_path / "net.onnx"), options=(("preset", preset),))
    with opened(spec, tokens, tmp_path) as case:
        place = next(place for place, site in enumerate(case.graph.sites) if site.tensor == "a")
        off = [each for each in range(len(case.graph.sites)) if each != place]
        given = case.graph.run(case.feeds, off, {place: Range(0.0, 0.0)})
    np.testing.assert_allclose(given["y"], case.feeds["x"], atol=1e-6)


def test_values(tmp_path: Path) -> None:
    """They are those of the float model, before rounding and after."""
    spec = EngineSpec("openvino", "int8", "static", dense(tmp_path / "net.onnx"), options=(_EIGHT_BITS,))
    with opened(spec, rows, tmp_path) as case:
        hidden = np.maximum(case.feeds["x"] @ FIRST, 0)
        known = case.graph.sites[2].range
        assert known is not None
        (weight, integers), (real, rounded) = case.graph.values(case.feeds, [1, 2])
        np.testing.assert_array_equal(weight, FIRST)
        np.testing.assert_allclose(integers, rounded_weight(FIRST), atol=1e-6)
        np.testing.assert_allclose(real, hidden, atol=1e-5)
        assert sqnr_db({"r": fake_quantized(real, *known)}, {"r": rounded}) > 80


def test_sites_of_a_shortcut(tmp_path: Path) -> None:
    """A product is named through its bias and activation, none through a sum; ends per channel are no range."""
    spec = EngineSpec("openvino", "int8", "static", residual(tmp_path / "net.onnx"))
    with opened(spec, images, tmp_path) as case:
        sites = {site.tensor: site for site in case.graph.sites}
        assert {name: sites[name].nodes for name in "xurvc"} == {
            "x": ("first",),
            "u": ("first",),
            "r": ("first", "inner"),
            "v": ("inner",),
            "c": ("inner",),
        }
        assert sites["e"].nodes == ("depth",)
        assert sites["e"].range is None
        assert sites["r"].range is not None


def test_a_weight_that_two_products_read_is_one_site(tmp_path: Path) -> None:
    """Both are named."""
    spec = EngineSpec("openvino", "int8", "static", attention(tmp_path / "net.onnx"))
    with opened(spec, tokens, tmp_path) as case:
        weights = [site.nodes for site in case.graph.sites if site.is_weight]
    assert sorted(name for nodes in weights for name in nodes) == ["key", "out", "query", "value"]


def compressed(source: Path, target: Path, mode: str = "INT8_ASYM", **options: Any) -> Model:
    """Write the model in `source` with the weights of all its products compressed."""
    import nncf

    read = openvino.Core().read_model(source)
    openvino.save_model(
        nncf.compress_weights(read, mode=nncf.CompressWeightsMode[mode], **options), target, compress_to_fp16=False
    )
    return Model.from_onnx(target)


@pytest.mark.parametrize("mode", ["INT8_ASYM", "INT4_SYM"])
def test_weights_alone(mode: str, tmp_path: Path) -> None:
    """Weights that were compressed, in groups too, have the weights of the float model behind their switches."""
    model = attention(tmp_path / "net.onnx")
    groups = {"group_size": 16, "all_layers": True} if mode == "INT4_SYM" else {}
    given = compressed(tmp_path / "net.onnx", tmp_path / "given.xml", mode, **groups)
    options = (("dynamic_quantization", 0),)
    spec = EngineSpec("openvino", mode[:4].lower(), "given", model, quantized=given, options=options)
    with opened(spec, tokens, tmp_path) as case:
        assert all(site.is_weight for site in case.graph.sites)
        assert case.graph.find_ranges(case.feeds) == {}
        assert sqnr_db(case.float, case.graph.run(case.feeds, range(len(case.graph.sites)))) > 80
        assert sqnr_db(case.engine, case.graph.run(case.feeds)) > 80


def two_alike(path: Path, last: Array) -> Model:
    """Two products whose weights have one shape."""
    text = "(float[n, 24] x) => (float[n, 24] y) { [first] a = MatMul(x, v) [last] y = MatMul(a, w) }"
    return write(path, text, v=normal(24, 24), w=last)


def test_a_weight_without_original_stays_rounded(tmp_path: Path) -> None:
    """It is no site, and said, so that nothing else is blamed for it; what is found by another name is a site."""
    two_alike(tmp_path / "trained.onnx", normal(24, 24, seed=8))
    given = compressed(tmp_path / "trained.onnx", tmp_path / "given.xml")
    model = two_alike(tmp_path / "net.onnx", normal(24, 24, seed=9))
    spec = EngineSpec("openvino", "int8", "given", model, quantized=given)
    with opened(spec, rows, tmp_path) as case:
        assert [site.tensor for site in case.graph.sites] == ["v"]
        assert "float values of some weights" in case.graph.unseen


def test_a_weight_is_found_under_another_name(tmp_path: Path) -> None:
    """The nearest constant of its shape is the one that it was rounded from."""
    text = "(float[n, 24] x) => (float[n, 24] y) { [other] a = MatMul(x, v) [names] y = MatMul(a, w) }"
    write(tmp_path / "trained.onnx", text, v=normal(24, 24), w=normal(24, 24, seed=8))
    given = compressed(tmp_path / "trained.onnx", tmp_path / "given.xml")
    spec = EngineSpec(
        "openvino", "int8", "given", two_alike(tmp_path / "net.onnx", normal(24, 24, seed=8)), quantized=given
    )
    with opened(spec, rows, tmp_path) as case:
        assert ([site.tensor for site in case.graph.sites], case.graph.unseen) == (["v", "w"], "")
        assert sqnr_db(case.float, case.graph.run(case.feeds, [0, 1])) > 80


def test_pairs_of_an_onnx_file_are_not_seen(tmp_path: Path) -> None:
    """Its FakeQuantize gives integers, and an activation before it may be gone."""
    text = """(float[n, 24] x) => (float[n, 24] y) <float s = {0.02}, int8 z = {0}> {
        i = QuantizeLinear(x, s, z) d = DequantizeLinear(i, s, z) [first] a = MatMul(d, v)
        u = DequantizeLinear(t, s, z) [last] y = MatMul(a, u) }"""
    weight = normal(24, 24, seed=8)
    given = write(tmp_path / "given.onnx", text, v=normal(24, 24), t=np.rint(weight / 0.02).astype(np.int8))
    spec = EngineSpec("openvino", "int8", "given", two_alike(tmp_path / "net.onnx", weight), quantized=given)
    OPENVINO.build(spec, None, tmp_path)
    assert OPENVINO.switches(spec, tmp_path, tmp_path) is None
