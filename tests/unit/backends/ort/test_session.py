"""Where a session runs, and what ONNX Runtime says turned into node, cause and next step. The texts are its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnxruntime
import pytest

from pytest_quant.backends.ort.session import Provider, open_session, ort_error, prove_placement
from pytest_quant.errors import BuildError


@pytest.mark.parametrize(
    ("kind", "cause", "fix"),
    [
        ("9 : NOT_IMPLEMENTED", "Could not find an implementation for ConvInteger(10) node 'conv_quant'", "exclude"),
        ("10 : INVALID_GRAPH", "Load model from m.onnx failed:This is an invalid model.", "opset 17"),
        ("1 : FAIL", "Fatal error: test.nowhere:Strange(-1) is not a registered function/op", "of your own"),
        (
            "6 : RUNTIME_EXCEPTION",
            "Non-zero status code returned while running Reshape node.",
            "float model runs alone",
        ),
        ("7 : INVALID_PROTOBUF", "Load model failed: Protobuf parsing failed.", "download"),
    ],
)
def test_cause_and_next_step(kind: str, cause: str, fix: str) -> None:
    """The value holds the cause, with the node, without the prefix; the fix fits the kind."""
    error = ort_error("the model", RuntimeError(f"[ONNXRuntimeError] : {kind} : {cause}"))
    assert error.what == "ONNX Runtime refused the model"
    assert error.value == f"{kind.rpartition(' ')[2]}: {cause}"
    assert error.fix is not None
    assert fix in error.fix


CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"


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


def test_a_product_on_the_cpu_is_refused() -> None:
    """Named with its provider, the others counted."""
    parts = [Part(CUDA, (Node("a", "Conv"),)), Part(CPU, (Node("b", "Conv"), Node("s", "Shape"), Node("g", "QGemm")))]
    with pytest.raises(BuildError, match="does not run on the device that was asked for") as caught:
        prove_placement(parts, [CUDA], "net")
    assert "b (Conv) on CPUExecutionProvider; g (QGemm) on CPUExecutionProvider" in str(caught.value)


def test_shapes_on_the_cpu_are_told() -> None:
    """ONNX Runtime puts them there itself, and they cost nothing worth failing for."""
    parts = [Part(CUDA, (Node("a", "Conv"),)), Part(CPU, (Node("s", "Shape"), Node("g", "Gather")))]
    assert prove_placement(parts, [CUDA], "net") == (f"2 nodes without products run on {CPU}: Gather, Shape",)


@pytest.mark.parametrize("provider", [CPU, CUDA])
def test_a_provider_that_nobody_asked_for_is_refused(provider: str) -> None:
    """Even with a node that computes nothing: only the CPU is where ONNX Runtime leaves what others do not take."""
    with pytest.raises(BuildError, match="does not run on the device that was asked for") as caught:
        prove_placement([Part("FooExecutionProvider", (Node("s", "Shape"),))], [provider], "net")
    assert "s (Shape) on FooExecutionProvider" in str(caught.value)
    assert ("reinstall onnxruntime" in str(caught.value)) == (provider == CPU)


def test_what_the_provider_that_is_judged_left_to_another_is_named() -> None:
    """CUDA may run what TensorRT does not take, and never in silence: products first, then what each provider has."""
    parts = [
        Part(TENSORRT, (Node("a", "Conv"),)),
        Part(CUDA, (Node("s", "Softmax"), Node("head", "MatMul"))),
        Part(CPU, (Node("g", "Gather"),)),
    ]
    assert prove_placement(parts, [TENSORRT, CUDA], "net") == (
        f"2 nodes run on {CUDA}, which {TENSORRT} left: head (MatMul), s (Softmax)",
        f"1 nodes without products run on {CPU}: Gather",
    )


def test_a_provider_that_took_nothing_is_refused() -> None:
    """All of it on the other provider is a fallback, which nobody asked to be judged."""
    with pytest.raises(BuildError, match=f"nothing of net runs on {TENSORRT}") as caught:
        prove_placement([Part(CUDA, (Node("a", "Conv"),))], [TENSORRT, CUDA], "net")
    assert caught.value.value == f"a (Conv) on {CUDA}"


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("Following input(s) has no associated shape profiles provided: inner", "use backend='trt'"),
        ("anything else", "float model runs alone"),
    ],
)
def test_refusals_of_providers_have_a_next_step(
    said: str, fix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By their own words, raised as ONNX Runtime raises them when a session opens."""

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError(f"[ONNXRuntimeError] : 1 : RUNTIME_EXCEPTION : {said}")

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    with pytest.raises(BuildError, match="refused the model") as caught:
        open_session(tmp_path / "model.onnx", [Provider(CUDA)])
    assert fix in str(caught.value.fix)
