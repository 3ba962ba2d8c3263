"""Engines of the TensorRT provider, built in `build` and only read afterwards, over a fake of the provider."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends.base import Engine
from pytest_quant.backends.ort.libraries import CUDA, TENSORRT
from pytest_quant.backends.trt import provider_build
from pytest_quant.backends.trt.coverage import Layer
from pytest_quant.backends.trt.provider import OrtTrtBackend
from pytest_quant.backends.trt.provider_engine import count_products, left_products
from pytest_quant.cache import Cache
from pytest_quant.errors import BuildError
from pytest_quant.measure.build import BuiltEngine, Tools, build_engine
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.spec import EngineSpec
from pytest_quant.testing.conformance.examples import dense
from pytest_quant.testing.conformance.workbench import build
from tests.support import fake_ort_trt
from tests.support.fake_ort_trt import CRASHES, LEFT, READS, SAYS, SM
from tests.support.measuring import QuietSteps
from tests.unit.backends.ort.test_session import Node, Part

pytestmark = pytest.mark.usefixtures("provider")

BACKEND = OrtTrtBackend()


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake of the provider, of which nothing is set."""
    for name in (LEFT, READS, SAYS, SM, CRASHES):
        monkeypatch.delenv(name, raising=False)
    fake_ort_trt.install(monkeypatch)


def spec_of(folder: Path, precision: str = "int8") -> EngineSpec:
    """Return a dense network of two products on ort-trt, INT8 from Q/DQ pairs unless asked otherwise."""
    scheme = "static" if precision == "int8" else None
    return EngineSpec("ort-trt", precision, scheme, dense().write(folder))


def products(engine: Engine) -> list[str]:
    """Return the names of the products in the order of the graph."""
    import onnx

    graph = onnx.load(engine.path).graph  # type: ignore[attr-defined]
    return [node.name for node in graph.node if node.op_type in ("Conv", "Gemm", "MatMul")]


def state(folder: Path) -> dict[str, bytes]:
    """Return the content of every file, by its name."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_engine_is_built_in_build_and_only_read_when_it_opens(tmp_path: Path) -> None:
    """Engine, its shapes, log and layers are there when the entry is sealed, and no session changes any file of it."""
    folder = build(BACKEND, spec_of(tmp_path), dense(), tmp_path)
    before = state(folder)
    assert [name for name in before if name.endswith("_int8_sm89.engine")]
    assert [name for name in before if name.endswith(".profile")]
    assert {"build.log", "layers.json"} <= before.keys()
    feeds = dense().feeds(4, 1)
    with BACKEND.open(spec_of(tmp_path), folder) as engine, BACKEND.open(spec_of(tmp_path), folder) as second:
        np.testing.assert_array_equal(engine.run(feeds)["y"], second.run(feeds)["y"])
        assert not [note for note in engine.notes if "anew" in note]
    assert state(folder) == before


def test_an_entry_of_the_cache_stays_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions on this GPU and on another leave the entry of the cache as it was: it is taken again, not built."""
    spec = spec_of(tmp_path, "fp32")

    def obtain() -> BuiltEngine:
        tools = Tools(Cache(tmp_path / "cache"), QuietSteps(), DeviceLocks(pytest.fail))
        return build_engine(spec, BACKEND, None, tools)

    built = obtain()
    assert built.status == "built"
    before = state(built.folder)
    for sm in ("89", "90"):
        monkeypatch.setenv(SM, sm)
        built = obtain()
        assert built.status == "hit"
        with BACKEND.open(spec, built.folder) as engine:
            engine.run(dense().feeds(4, 1))
    assert obtain().status == "hit"
    assert state(built.folder) == before


def test_an_engine_for_another_gpu_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider builds another: the entry stays as it was, a note tells, and nothing is said of the layers."""
    folder = build(BACKEND, spec_of(tmp_path), dense(), tmp_path)
    before = state(folder)
    monkeypatch.setenv(SM, "90")
    with BACKEND.open(spec_of(tmp_path), folder) as engine:
        assert any("built its engine anew" in note for note in engine.notes)
        found = engine.coverage(dense().feeds(4, 1))
    assert (found.pct, found.opaque_nodes) == (None, 2)
    assert "anew" in found.notes[0]
    assert state(folder) == before


@pytest.mark.parametrize(
    ("precision", "reads", "pct"), [("int8", "Int8", 100), ("int8", "Half", 0), ("fp32", "Float", 100)]
)
def test_what_the_layers_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str, reads: str, pct: float
) -> None:
    """The share of multiply-accumulates in the asked precision, by the layers that the build listed."""
    monkeypatch.setenv(READS, reads)
    spec = spec_of(tmp_path, precision)
    folder = build(BACKEND, spec, dense(), tmp_path)
    with BACKEND.open(spec, folder) as engine:
        found = engine.coverage(dense().feeds(4, 1))
    assert (found.pct, found.unit, found.provider) == (pct, "MACs", TENSORRT)
    assert found.notes == (("2 of 2 products ran in fp16",) if reads == "Half" else ())


def test_a_product_on_cuda_is_no_int8_of_tensorrt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named in a note and among the float nodes, and its multiply-accumulates count against INT8."""
    spec = spec_of(tmp_path)
    folder = build(BACKEND, spec, dense(), tmp_path)
    with BACKEND.open(spec, folder) as engine:
        first, second = products(engine)
    monkeypatch.setenv(LEFT, second)
    (tmp_path / "again").mkdir()
    folder = build(BACKEND, spec, dense(), tmp_path / "again")
    with BACKEND.open(spec, folder) as engine:
        found = engine.coverage(dense().feeds(4, 1))
        assert any(f"run on {CUDA}, which {TENSORRT} left: {second} (" in note for note in engine.notes)
    shares = {row.op_type: row for row in found.by_op}
    assert found.pct is not None
    assert 0 < found.pct < 100
    assert found.float_nodes == (second,)
    assert found.provider == f"{TENSORRT}, {CUDA}"
    assert sum(row.macs or 0 for row in shares.values()) > 0
    assert first not in found.float_nodes


def test_without_a_list_of_layers_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict is then that it cannot be told, with the reason, and never a figure."""
    monkeypatch.setenv(READS, "")
    spec = spec_of(tmp_path)
    folder = build(BACKEND, spec, dense(), tmp_path)
    with BACKEND.open(spec, folder) as engine:
        found = engine.coverage(dense().feeds(4, 1))
    assert (found.pct, found.opaque_nodes) == (None, 2)
    assert found.notes == ("the log of the provider's build does not tell the precision of layers",)


def test_missing_scales_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorRT warns in a log that nobody sees; the note counts the tensors."""
    monkeypatch.setenv(SAYS, "Missing scale and zero-point for tensor h, expect fall back to non-int8 implementation")
    spec = spec_of(tmp_path)
    folder = build(BACKEND, spec, dense(), tmp_path)
    with BACKEND.open(spec, folder) as engine:
        assert any("1 tensor has no scale" in note for note in engine.notes)
    log = (folder / "build.log").read_text()
    assert "\x1b" not in log
    assert "Time: 0.006" not in log


def test_a_build_that_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends another process: an error with the signal."""
    monkeypatch.setenv(CRASHES, "1")
    with pytest.raises(BuildError, match=r"did not build ort-trt-int8-static of dense: it crashed \(SIGABRT\)"):
        build(BACKEND, spec_of(tmp_path), dense(), tmp_path)


def test_a_build_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the time that it was given."""
    monkeypatch.setattr(provider_build, "TIME_LIMIT_S", 0.001)
    with pytest.raises(BuildError, match=r"did not build ort-trt-fp32 of dense: it took more than 0\.001 s"):
        build(BACKEND, spec_of(tmp_path, "fp32"), dense(), tmp_path)


def test_a_build_that_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other process found wrong is quoted: here that TensorRT took nothing."""
    spec = spec_of(tmp_path, "fp32")
    folder = build(BACKEND, spec, dense(), tmp_path)
    with BACKEND.open(spec, folder) as engine:
        session = vars(engine)["_session"]
        nodes = [node.name for part in session.get_provider_graph_assignment_info() for node in part.get_nodes()]
    monkeypatch.setenv(LEFT, ",".join(nodes))
    (tmp_path / "again").mkdir()
    with pytest.raises(BuildError, match="refused to build ort-trt-fp32") as caught:
        build(BACKEND, spec, dense(), tmp_path / "again")
    assert f"runs on {TENSORRT}" in str(caught.value.value)


@pytest.mark.parametrize(
    ("op", "precision", "kind"), [("MatMul", "fp32", 100.0), ("MatMul", "int8", 0.0), ("MatMulInteger", "int8", 0.0)]
)
def test_a_product_elsewhere_counts_in_float32_only(op: str, precision: str, kind: float) -> None:
    """CUDA computes a float product in float32; an integer product of it is none of TensorRT's."""
    left = left_products([Part(TENSORRT, (Node("a", "Conv"),)), Part(CUDA, (Node("head", op), Node("s", "Softmax")))])
    assert left == {"head": (op, CUDA)}
    found = count_products([], {"head": "MatMul"}, left, precision, {"head": 64})
    assert (found.pct, found.unit) == (kind, "MACs")


def test_a_fused_product_elsewhere_is_the_one_of_the_graph() -> None:
    """ONNX Runtime appends the fusion to the name, and the product is counted once."""
    layers = [Layer("a + relu", "CaskConvolution", ("Int8",), ("a",))]
    left = {"head/MatMulAddFusion": ("Gemm", CUDA)}
    found = count_products(layers, {"a": "Conv", "head": "MatMul"}, left, "int8", {"a": 300, "head": 100})
    assert found.pct == pytest.approx(75.0)
    assert sum(row.nodes for row in found.by_op) == 2
