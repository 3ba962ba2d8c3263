"""Int8 weights of linear layers by torchao, and what asks for a GPU where there is none."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pytest_quant.backends import Feeds, get_backend
from pytest_quant.errors import UsageError
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import conv, dense, module_model, open_example, sqnr_db

TORCH = get_backend("torch")
CUDA = get_backend("torch-cuda")


def held(model: Model, exclude: tuple[str, ...] = (), **options: object) -> EngineSpec:
    """The spec of int8 weights."""
    return EngineSpec("torch", "int8", "weight-only", model, exclude=exclude, options=tuple(options.items()))


@pytest.mark.parametrize("compiled", [True, False])
def test_weights_are_steps_of_a_255th_of_a_row_s_range(compiled: bool) -> None:
    """Seen through unit vectors: whole steps of int8, each at most half a step off, and no two rows share a scale."""
    torch.manual_seed(0)
    layer = nn.Linear(64, 32, bias=False)
    model = Model.from_torch(layer, (torch.zeros(2, 64),))
    with open_example(TORCH, held(model, compiled=compiled), dense()) as engine:
        (result,) = engine.run({"input": np.eye(64, dtype=np.float32)}).values()
        assert engine.simulated is False
    weight = layer.weight.detach().numpy().T
    step = 2 * np.abs(weight).max(axis=0) / 255
    np.testing.assert_allclose(result / step, np.round(result / step), atol=1e-3)
    assert np.abs(result / step).max() <= 128.001
    assert np.abs((result - weight) / step).max() <= 0.501
    assert np.abs(result - weight).max() > 0


def test_of_a_convolution_and_a_linear_layer_the_latter() -> None:
    """Only the linear layer's weights are kept in integers, and the convolution is named."""
    example = conv()
    with open_example(TORCH, held(module_model(example)), example) as engine:
        coverage = engine.coverage(example.feeds(4, 0))
        assert sqnr_db(example.compute(example.feeds(4, 0)), engine.run(example.feeds(4, 0))) > 30
    convolved, multiplied = 6 * 6 * 8 * 3 * 3, 8 * 36 * 10
    assert coverage.pct == pytest.approx(100 * multiplied / (convolved + multiplied))
    assert coverage.float_nodes == ("conv",)


def test_a_file_a_quarter_as_large() -> None:
    """A large layer in int8 takes a quarter of its bytes in float, and its scales."""
    model = Model.from_torch(nn.Linear(1024, 1024), (torch.zeros(2, 1024),))
    sizes = []
    for spec in (held(model), EngineSpec("torch", "fp32", None, model)):
        with open_example(TORCH, spec, dense()) as engine:
            sizes.append(engine.size_bytes)
    assert sizes[0] < 0.27 * sizes[1]


def test_an_excluded_layer_stays_in_float() -> None:
    """Of two layers one is excluded; a name that the module does not have is refused with the nearest."""
    example = dense()
    model = module_model(example)
    with open_example(TORCH, held(model, ("first",)), example) as engine:
        assert engine.coverage(example.feeds(4, 0)).pct == pytest.approx(100 * 32 * 10 / (64 * 32 + 32 * 10))
    with pytest.raises(UsageError, match="'first'"), open_example(TORCH, held(model, ("frist",)), example):
        pass


def test_an_integer_input_is_no_weight(tmp_path: Path) -> None:
    """A product of an int8 input that is cast to float counts as float."""

    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.other = nn.Linear(8, 8), nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.other(torch.relu(self.layer(x.float())))
            return result

    model = Model.from_torch(Cast(), (torch.zeros(2, 8, dtype=torch.int8),))
    feeds: Feeds = {"x": np.ones((2, 8), np.int8)}
    with open_example(TORCH, held(model, ("layer",)), dense()) as engine:
        assert engine.coverage(feeds).pct == pytest.approx(100 * 8 * 4 / (8 * 8 + 8 * 4))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here, and tests/gpu asks it")
def test_a_gpu_that_is_not_here() -> None:
    """Asked for CUDA, it never runs on the CPU: the reason and the way out are told."""
    result = CUDA.availability(EngineSpec("torch-cuda", "fp16", None, module_model(dense())))
    assert not result.available
    assert "CUDA" in result.reason
    assert result.fix


@pytest.mark.parametrize(
    ("config", "freezes"), [("Int8WeightOnlyConfig", False), ("Int8DynamicActivationInt8WeightConfig", True)]
)
def test_weights_that_arrive_in_integers_alone_stay_so(
    config: str, freezes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen, they would be widened once and kept in float; where activations are rounded too, it makes the kernels."""
    import torchao.quantization as ao
    from torch._inductor import config as inductor

    module = nn.Sequential(nn.Linear(64, 8))
    example = (torch.zeros(2, 64),)
    model = Model.from_torch(copy.deepcopy(module), example)
    ao.quantize_(module, getattr(ao, config)())
    spec = EngineSpec("torch", "int8", "given", model, quantized=Model.from_torch(module, example))
    TORCH.build(spec, None, tmp_path)
    seen: list[bool] = []

    def compiled(call: object, **_: object) -> object:
        seen.append(inductor.freezing)
        return call

    monkeypatch.setattr(torch, "compile", compiled)
    with TORCH.open(spec, tmp_path) as engine:
        engine.run({"input": np.zeros((2, 64), np.float32)})
    assert seen == [freezes]
