"""Where the nodes of a session are."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pytest_quant.backends import get_backend
from pytest_quant.backends.ort_gpu.engine import prove_placement
from pytest_quant.errors import BuildError
from pytest_quant.spec import EngineSpec, Model

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


@dataclass(frozen=True)
class Node:
    """As ONNX Runtime tells of one."""

    name: str
    op_type: str


@dataclass(frozen=True)
class Part:
    """The nodes of one provider."""

    ep_name: str
    nodes: tuple[Node, ...]

    def get_nodes(self) -> tuple[Node, ...]:
        """As ONNX Runtime spells it."""
        return self.nodes


def test_all_on_the_gpu() -> None:
    """Nothing to say."""
    assert prove_placement([Part(CUDA, (Node("c", "Conv"),))], [CUDA], "net") == ()


def test_a_product_on_the_cpu_is_refused() -> None:
    """Named with its provider, the others counted."""
    parts = [Part(CUDA, (Node("a", "Conv"),)), Part(CPU, (Node("b", "Conv"), Node("s", "Shape"), Node("g", "QGemm")))]
    with pytest.raises(BuildError, match="does not run where it was asked to") as caught:
        prove_placement(parts, [CUDA], "net")
    assert "b (Conv) on CPUExecutionProvider; g (QGemm) on CPUExecutionProvider" in str(caught.value)


def test_shapes_on_the_cpu_are_told() -> None:
    """ONNX Runtime puts them there itself, and they cost nothing worth failing for."""
    parts = [Part(CUDA, (Node("a", "Conv"),)), Part(CPU, (Node("s", "Shape"), Node("g", "Gather")))]
    assert prove_placement(parts, [CUDA], "net") == (f"2 nodes without products run on {CPU}: Gather, Shape",)


def test_a_limit_on_the_speed_of_int8_on_cuda_is_refused() -> None:
    """The provider has no such kernels; of FP32 the speed may be limited."""
    backend = get_backend("ort-cuda")
    model = Model("net")
    refusal = backend.refuses_speed(EngineSpec("ort-cuda", "int8", "static", model))
    assert refusal is not None
    assert "no INT8 kernels" in str(refusal)
    assert "ort-trt" in str(refusal.fix)
    assert backend.refuses_speed(EngineSpec("ort-cuda", "fp32", None, model)) is None
