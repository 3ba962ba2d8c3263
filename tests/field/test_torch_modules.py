"""Modules of PyTorch as people have them: quantized by other tools, inside of wrappers, half converted, in bfloat16."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pytest_quant.backends import get_backend
from pytest_quant.backends.torch.export import export_onnx
from pytest_quant.backends.torch.module import module_of, signature_of
from pytest_quant.errors import BuildError, ModelError
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import sqnr_db

TORCH = get_backend("torch")
EXAMPLE = (torch.zeros(2, 64),)
FEEDS = {"input": np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)}
eager: Any = torch.ao.quantization

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*(is deprecated|migrat|reduce_range).*"),
    pytest.mark.filterwarnings("ignore:Please use quant_min"),
]


def net() -> nn.Sequential:
    """A float network."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).eval()


def by_torchao(config: str) -> nn.Module:
    """The network as ``quantize_`` leaves it."""
    import torchao.quantization as ao

    module = net()
    ao.quantize_(module, getattr(ao, config)())
    return module


QUANTIZED: dict[str, Callable[[], nn.Module]] = {
    "w8a8": lambda: by_torchao("Int8DynamicActivationInt8WeightConfig"),
    "w8": lambda: by_torchao("Int8WeightOnlyConfig"),
    "eager": lambda: eager.quantize_dynamic(net(), {nn.Linear}, dtype=torch.qint8),
}


@pytest.mark.parametrize("kind", QUANTIZED)
def test_modules_of_torchao_and_of_eager_mode_are_compared(kind: str, tmp_path: Path) -> None:
    """They run as they are, near to the float module, and all of their products are in int8."""
    quantized = Model.from_torch(QUANTIZED[kind](), EXAMPLE, name=kind)
    # Compiling takes seconds, and the products are known before.
    options = (("compiled", False),)
    spec = EngineSpec("torch", "int8", "given", Model.from_torch(net(), EXAMPLE), quantized=quantized, options=options)
    assert TORCH.ingredients(spec) == TORCH.ingredients(spec)
    TORCH.build(spec, None, tmp_path)
    exact = net()(torch.from_numpy(FEEDS["input"])).detach().numpy()
    with TORCH.open(spec, tmp_path) as engine:
        assert sqnr_db({"output": exact}, engine.run(FEEDS)) > 30
        assert engine.coverage(FEEDS).pct == 100.0
    with (
        TORCH.open(replace(spec, exclude=("2",)), tmp_path) as engine,
        pytest.raises(BuildError, match="quantizes what exclude names"),
    ):
        engine.coverage(FEEDS)


class Extra(nn.Sequential):
    """A module with a state beside its tensors."""

    def get_extra_state(self) -> object:
        """Return anything."""
        return {"step": 1}

    def set_extra_state(self, state: object) -> None:
        """Take it."""


def with_norm() -> nn.Module:
    """Weights that are computed before each run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Sequential(nn.utils.weight_norm(nn.Linear(64, 8))).eval()


MODULES: dict[str, Callable[[], Any]] = {
    "torch.compile": lambda: torch.compile(net()),
    "DataParallel": lambda: nn.DataParallel(net()),
    "weight_norm": with_norm,
    "get_extra_state": lambda: Extra(nn.Linear(64, 8)).eval(),
    "lstm_outputs": lambda: nn.Sequential(nn.LSTM(64, 4)).eval(),
}


@pytest.mark.parametrize("kind", MODULES)
def test_float_modules_are_taken_out_of_what_is_around_them(kind: str) -> None:
    """The copy that is built computes what the module does, all of its outputs."""
    torch.manual_seed(0)
    module = MODULES[kind]()
    model = Model.from_torch(module, EXAMPLE, name=kind)
    x = torch.from_numpy(FEEDS["input"])
    inner = module._orig_mod if kind == "torch.compile" else module
    with torch.no_grad():
        outputs = module_of(model)(x)
        wanted = inner(x)
    flat = [wanted[0], *wanted[1]] if kind == "lstm_outputs" else [wanted]
    assert list(outputs) == ["output"] if len(flat) == 1 else ["output_0", "output_1.0", "output_1.1"]
    assert all(torch.allclose(got, each, atol=1e-6) for got, each in zip(outputs.values(), flat, strict=True))
    assert TORCH.ingredients(EngineSpec("torch", "fp32", None, model))


def test_torchscript_is_an_error_that_says_what_to_give() -> None:
    """It cannot be traced a second time."""
    traced = torch.jit.trace(net(), EXAMPLE[0])
    with pytest.raises(ModelError, match=r"TorchScript[\s\S]*give the torch\.nn\.Module"):
        signature_of(Model.from_torch(traced, EXAMPLE))


@pytest.mark.parametrize("layout", ["slice", "transposed", "channels_last"])
def test_example_inputs_of_any_layout(layout: str, tmp_path: Path) -> None:
    """Data is contiguous, and what is traced takes it; a channels-last picture stays one."""
    examples = {
        "slice": torch.randn(4, 10)[:, :6],
        "transposed": torch.randn(6, 4).t(),
        "channels_last": torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last),
    }
    example = examples[layout]
    model = Model.from_torch(nn.Conv2d(3, 4, 3) if example.ndim == 4 else nn.Linear(6, 4), (example,))
    spec = EngineSpec("torch", "fp32", None, model, options=(("compiled", False),))
    TORCH.build(spec, None, tmp_path)
    with TORCH.open(spec, tmp_path) as engine:
        feeds = np.ones((4, *example.shape[1:]), np.float32)
        assert engine.run({"input": feeds})["output"].shape[0] == 4


def prepared() -> nn.Module:
    """A module in the midst of quantization-aware training."""
    module = nn.Sequential(eager.QuantStub(), *net(), eager.DeQuantStub()).train()
    module.qconfig = eager.get_default_qat_qconfig("x86")
    ready: nn.Module = eager.prepare_qat(module)
    ready(torch.randn(64, 64))
    return ready.eval()


def test_fake_quantizers_are_to_be_converted_first(tmp_path: Path) -> None:
    """The error says by what; converted, the module is compared in PyTorch, and ONNX says why it cannot be there."""
    module = prepared()
    with pytest.raises(ModelError, match=r"fake quantizers[\s\S]*torch\.ao\.quantization\.convert\(module\)"):
        signature_of(Model.from_torch(module, EXAMPLE))
    converted = Model.from_torch(eager.convert(module), EXAMPLE)
    spec = EngineSpec("torch", "int8", "qat", Model.from_torch(net(), EXAMPLE), quantized=converted)
    TORCH.build(spec, None, tmp_path)
    with TORCH.open(spec, tmp_path) as engine:
        assert engine.coverage(FEEDS).pct == 100.0
    with pytest.raises(BuildError, match=r"eager mode[\s\S]*backend='torch'"):
        export_onnx(converted, tmp_path)


def test_a_module_in_bfloat16_is_no_reference() -> None:
    """The error names a weight and the way to float32, which works."""
    half = net().bfloat16()
    with pytest.raises(ModelError, match=r"bfloat16 at '0\.weight'[\s\S]*module\.float\(\)"):
        signature_of(Model.from_torch(half, (EXAMPLE[0].bfloat16(),)))
    (entry,) = signature_of(Model.from_torch(half.float(), EXAMPLE)).inputs
    assert entry.dtype == "float32"
