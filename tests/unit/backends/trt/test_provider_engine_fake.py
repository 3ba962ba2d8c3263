"""Engines of the TensorRT provider, built in `build` and only read afterwards, over a fake of the provider."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends.ort.libraries import CUDA, TENSORRT
from pytest_quant.backends.ort.macs import PRODUCT_OPS
from pytest_quant.backends.trt.coverage import Layer
from pytest_quant.backends.trt.provider import OrtTrtBackend
from pytest_quant.backends.trt.provider_engine import count_products, left_products
from pytest_quant.errors import BuildError
from pytest_quant.spec import EngineSpec
from pytest_quant.testing.conformance.examples import build, dense
from tests.support import fake_ort_trt
from tests.support.fake_ort_trt import CRASHES, LEFT, READS, SAYS, SM
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


def state(folder: Path) -> dict[str, bytes]:
    """Return the content of every file, by its name."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_engine_is_built_in_build_and_only_read_when_it_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Engine, its shapes, log and layers are there when the entry is sealed, and no session changes any file of it.

    On another GPU the provider builds another: a note tells, and nothing is said of the layers. So is told what
    TensorRT warned of in a log that nobody sees.
    """
    monkeypatch.setenv(SAYS, "Missing scale and zero-point for tensor h, expect fall back to non-int8 implementation")
    folder = build(BACKEND, spec_of(tmp_path), dense(), tmp_path)
    before = state(folder)
    assert [name for name in before if name.endswith("_int8_sm89.engine")]
    assert [name for name in before if name.endswith(".profile")]
    assert {"build.log", "layers.json"} <= before.keys()
    feeds = dense().feeds(4, 1)
    with BACKEND.open(spec_of(tmp_path), folder) as engine, BACKEND.open(spec_of(tmp_path), folder) as second:
        np.testing.assert_array_equal(engine.run(feeds)["y"], second.run(feeds)["y"])
        assert any("1 tensor has no scale" in note for note in engine.notes)
        assert not [note for note in engine.notes if "anew" in note]
    monkeypatch.setenv(SM, "90")
    with BACKEND.open(spec_of(tmp_path), folder) as engine:
        assert any("built its engine anew" in note for note in engine.notes)
        coverage = engine.coverage(feeds)
    assert (coverage.pct, coverage.opaque_nodes) == (None, 2)
    assert "anew" in coverage.notes[0]
    assert state(folder) == before


NOT_TOLD = "the log of the provider's build does not show the precision of layers"


@pytest.mark.parametrize(
    ("precision", "reads", "pct", "notes"),
    [
        ("int8", "Int8", 100, ()),
        ("int8", "Half", 0, ("2 of 2 products ran in fp16",)),
        ("fp32", "Float", 100, ()),
        ("int8", "", None, (NOT_TOLD,)),
    ],
)
def test_what_the_layers_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    precision: str,
    reads: str,
    pct: float | None,
    notes: tuple[str, ...],
) -> None:
    """The share of multiply-accumulates in the asked precision, by the layers that the build listed; else no figure."""
    monkeypatch.setenv(READS, reads)
    spec = spec_of(tmp_path, precision)
    folder = build(BACKEND, spec, dense(), tmp_path)
    with BACKEND.open(spec, folder) as engine:
        coverage = engine.coverage(dense().feeds(4, 1))
    assert (coverage.pct, coverage.opaque_nodes, coverage.notes) == (pct, 0 if reads else 2, notes)
    assert coverage.provider == TENSORRT


def test_a_product_on_cuda_is_no_int8_of_tensorrt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named in a note and among the float nodes; where TensorRT takes nothing the build is refused."""
    spec = spec_of(tmp_path)
    with BACKEND.open(spec, build(BACKEND, spec, dense(), tmp_path)) as engine:
        session = vars(engine)["_session"]
    nodes = [node for part in session.get_provider_graph_assignment_info() for node in part.get_nodes()]
    second = [node.name for node in nodes if node.op_type in PRODUCT_OPS][-1]
    monkeypatch.setenv(LEFT, second)
    (tmp_path / "again").mkdir()
    with BACKEND.open(spec, build(BACKEND, spec, dense(), tmp_path / "again")) as engine:
        coverage = engine.coverage(dense().feeds(4, 1))
        assert any(f"run on {CUDA}, which {TENSORRT} left: {second} (" in note for note in engine.notes)
    assert coverage.pct is not None
    assert 0 < coverage.pct < 100
    assert coverage.float_nodes == (second,)
    assert coverage.provider == f"{TENSORRT}, {CUDA}"
    monkeypatch.setenv(LEFT, ",".join(node.name for node in nodes))
    (tmp_path / "all").mkdir()
    with pytest.raises(BuildError, match=rf"refused to build ort-trt-int8-static(.|\n)*runs on {TENSORRT}"):
        build(BACKEND, spec, dense(), tmp_path / "all")


def test_a_build_that_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends another process: an error with the signal."""
    monkeypatch.setenv(CRASHES, "1")
    with pytest.raises(BuildError, match=r"did not build ort-trt-int8-static of dense: it crashed \(SIGABRT\)"):
        build(BACKEND, spec_of(tmp_path), dense(), tmp_path)


@pytest.mark.parametrize(
    ("op", "precision", "kind"), [("MatMul", "fp32", 100.0), ("MatMul", "int8", 0.0), ("MatMulInteger", "int8", 0.0)]
)
def test_a_product_elsewhere_counts_in_float32_only(op: str, precision: str, kind: float) -> None:
    """CUDA computes a float product in float32; an integer product of it is none of TensorRT's."""
    left = left_products([Part(TENSORRT, (Node("a", "Conv"),)), Part(CUDA, (Node("head", op), Node("s", "Softmax")))])
    assert left == {"head": (op, CUDA)}
    result = count_products([], {"head": "MatMul"}, left, precision, {"head": 64})
    assert (result.pct, result.unit) == (kind, "MACs")


def test_a_fused_product_elsewhere_is_the_one_of_the_graph() -> None:
    """ONNX Runtime appends the fusion to the name, and the product is counted once."""
    layers = [Layer("a + relu", "CaskConvolution", ("Int8",), ("a",))]
    left = {"head/MatMulAddFusion": ("Gemm", CUDA)}
    result = count_products(layers, {"a": "Conv", "head": "MatMul"}, left, "int8", {"a": 300, "head": 100})
    assert result.pct == pytest.approx(75.0)
    assert sum(row.nodes for row in result.by_op) == 2
