"""From a module to ONNX, and quantization-aware training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

from pytest_quant.backends import get_backend
from pytest_quant.backends.torch.export import export_ingredients, export_onnx
from pytest_quant.backends.torch.quantize import convert_qat, prepare_qat
from pytest_quant.errors import BuildError
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import conv, module_model, open_example, tokens, two_by_two


@pytest.mark.parametrize("make", [conv, two_by_two, tokens])
def test_the_file_has_the_modules_names_and_numbers(make: object, tmp_path: Path) -> None:
    """Names, dtypes and free axes are those of the module's signature, and ONNX Runtime finds the same values."""
    assert callable(make)
    example = make()
    model = module_model(example)
    path = export_onnx(model, tmp_path)
    ort, torch_backend = get_backend("ort"), get_backend("torch")
    written = ort.signature(Model.from_onnx(path))
    assert written == torch_backend.signature(model)
    feeds = example.feeds(5, 1)
    with open_example(ort, EngineSpec("ort", "fp32", None, Model.from_onnx(path)), example) as engine:
        for name, array in engine.run(feeds).items():
            np.testing.assert_allclose(array, example.compute(feeds)[name], rtol=1e-4, atol=1e-5)


def test_truth_values_and_empty_outputs_are_compared(tmp_path: Path) -> None:
    """A mask and an output without elements are outputs like any other."""

    class Masking(nn.Module):
        """Gives a mask and nothing."""

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            """Return which values are above 0, and no column of them."""
            return x > 0, x[:, :0]

    path = export_onnx(Model.from_torch(Masking(), (torch.linspace(-1, 1, 8).reshape(2, 4),)), tmp_path)
    assert [output.dtype for output in get_backend("ort").signature(Model.from_onnx(path)).outputs] == [
        "bool",
        "float32",
    ]


def test_a_module_that_is_not_the_same_twice_is_refused(tmp_path: Path) -> None:
    """Randomness is frozen in the file; the difference is told with its size."""

    class Noisy(nn.Module):
        """Adds noise."""

        def forward(self, x: Tensor) -> Tensor:
            """Return something else each time."""
            return x + torch.rand_like(x)

    with pytest.raises(BuildError, match="computes something else than the module"):
        export_onnx(Model.from_torch(Noisy(), (torch.zeros(2, 4),)), tmp_path)


def test_a_module_that_cannot_be_traced_is_refused(tmp_path: Path) -> None:
    """Code that decides by values has no graph."""

    class Deciding(nn.Module):
        """Branches on a value."""

        def forward(self, x: Tensor) -> Tensor:
            """Return one of two things."""
            return x if bool(x.sum() > 0) else -x

    with pytest.raises(BuildError, match="cannot trace"):
        export_onnx(Model.from_torch(Deciding(), (torch.zeros(2, 4),)), tmp_path)


def test_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The exporter's ticks stay off the screen."""
    export_onnx(module_model(conv()), tmp_path)
    assert capfd.readouterr() == ("", "")


def test_a_changed_weight_exports_again() -> None:
    """The key of the file follows the weights."""
    first, second = nn.Linear(4, 2), nn.Linear(4, 2)
    example = (torch.zeros(2, 4),)
    assert export_ingredients(Model.from_torch(first, example)) != export_ingredients(Model.from_torch(second, example))


@pytest.fixture(scope="module")
def trained() -> tuple[nn.Module, nn.Module]:
    """A small network and the same after one round of QAT."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)).eval()
    prepared = prepare_qat(network, (torch.zeros(4, 1, 8, 8),))
    optimizer = torch.optim.SGD(prepared.parameters(), 1e-3)
    for _ in range(8):
        optimizer.zero_grad()
        prepared(torch.randn(16, 1, 8, 8)).square().mean().backward()
        optimizer.step()
    return network, convert_qat(prepared)


CONV_MACS, DENSE_MACS = 8 * 36 * 9, 288 * 10
COVERAGE = {"torch": 100.0, "openvino": 100.0, "ort": 100.0 * CONV_MACS / (CONV_MACS + DENSE_MACS)}
"""ONNX Runtime's int8 Gemm takes an int32 bias only, and torchao leaves the bias in float."""


def test_a_trained_network_is_judged_in_every_runtime(trained: tuple[nn.Module, nn.Module], tmp_path: Path) -> None:
    """The converted module runs INT8 kernels in PyTorch, and its Q/DQ export runs them in ONNX Runtime and OpenVINO."""
    network, converted = trained
    example = (torch.zeros(2, 1, 8, 8),)
    quantized = Model.from_torch(converted, example)
    path = export_onnx(quantized, tmp_path)
    ops = {node.op_type for node in onnx.load(path).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= ops
    feeds = conv().feeds(8, 1)["x"]
    with torch.no_grad():
        wanted = network(torch.from_numpy(feeds)).argmax(1).numpy()
    for name, files in (("torch", False), ("ort", True), ("openvino", True)):
        backend = get_backend(name)
        model = Model.from_torch(network, example)
        spec = EngineSpec(name, "int8", "qat", model, quantized=Model.from_onnx(path) if files else quantized)
        folder = tmp_path / name
        folder.mkdir()
        backend.build(spec, None, folder)
        engine = backend.open(spec, folder)
        (entry,) = engine.signature.inputs
        result = next(iter(engine.run({entry.name: feeds}).values()))
        assert engine.coverage({entry.name: feeds}).pct == pytest.approx(COVERAGE[name]), name
        assert (result.argmax(1) == wanted).mean() > 0.8, name
        engine.close()
