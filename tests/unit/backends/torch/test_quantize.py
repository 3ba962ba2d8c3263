"""What a quantized module is known by."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torchao.quantization import Int8WeightOnlyConfig, quantize_
from torchao.utils import unwrap_tensor_subclass

from pytest_quant.backends import get_backend
from pytest_quant.backends.torch.quantize import convert_qat, prepare_qat, quantizing_parts
from pytest_quant.spec import EngineSpec, Model

EXAMPLE = (torch.zeros(2, 64),)


def network() -> nn.Sequential:
    """A float network of two layers."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)).eval()


def _eager(qat: bool) -> nn.Module:
    module = nn.Sequential(torch.ao.quantization.QuantStub(), nn.Linear(64, 4), torch.ao.quantization.DeQuantStub())
    module.train(qat)
    eager: Any = torch.ao.quantization
    module.qconfig = (eager.get_default_qat_qconfig if qat else eager.get_default_qconfig)("x86")
    prepared: nn.Module = (eager.prepare_qat if qat else eager.prepare)(module)
    return prepared


def eager_dynamic() -> nn.Module:
    """Linear layers of ``torch.ao.nn.quantized.dynamic``."""
    quantized: nn.Module = torch.ao.quantization.quantize_dynamic(network(), {nn.Linear}, dtype=torch.qint8)
    return quantized


def eager_static() -> nn.Module:
    """Layers of ``torch.ao.nn.quantized``."""
    prepared = _eager(qat=False)
    prepared(*EXAMPLE)
    converted: nn.Module = torch.ao.quantization.convert(prepared)
    return converted


def eager_training() -> nn.Module:
    """Layers that round in training."""
    return _eager(qat=True)


def held_weights() -> nn.Module:
    """Float layers whose weights are tensors of torchao."""
    module = network()
    quantize_(module, Int8WeightOnlyConfig())
    return module


def unwrapped_weights() -> nn.Module:
    """The same, taken apart for an export."""
    unwrapped: nn.Module = unwrap_tensor_subclass(held_weights())
    return unwrapped


def converted_graph() -> nn.Module:
    """A graph with Q/DQ pairs."""
    converted: nn.Module = convert_qat(prepare_qat(network(), EXAMPLE))
    return converted


@pytest.mark.parametrize(
    "make", [eager_dynamic, eager_static, eager_training, held_weights, unwrapped_weights, converted_graph]
)
@pytest.mark.filterwarnings("ignore")
def test_a_quantized_module_is_known(make: Callable[[], nn.Module]) -> None:
    """Each part is named."""
    parts = quantizing_parts(make())
    assert parts
    assert all(part.endswith("'") for part in parts)


def test_a_float_module_is_known() -> None:
    """Plain, exported, and with observers or stubs, which change nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        observed = _eager(qat=False)
    exported = torch.export.export(network(), EXAMPLE).module()
    assert [
        quantizing_parts(each) for each in (network(), exported, observed, nn.LSTM(4, 4), copy.deepcopy(exported))
    ] == [
        (),
        (),
        (),
        (),
        (),
    ]


def test_remedies_are_other_schemes_and_the_program_before_the_compiler() -> None:
    """Each is offered, and none of them is what the engine is already; what arrives quantized keeps its scheme."""
    torch_backend = get_backend("torch")
    model = Model.from_torch(network(), EXAMPLE)
    pasted = {}
    for scheme in ("static", "dynamic", "weight-only", "given"):
        quantized = model if scheme == "given" else None
        spec = EngineSpec("torch", "int8", scheme, model, quantized=quantized, options=(("reduce_range", False),))
        remedies = torch_backend.remedies(spec)
        assert spec not in [remedy.spec for remedy in remedies]
        for remedy in remedies:
            torch_backend.check(remedy.spec)
        pasted[scheme] = [remedy.paste.partition("=")[2] for remedy in remedies if "True" not in remedy.paste]
    eager = "{'reduce_range': False, 'compiled': False}"
    assert pasted == {
        "static": ["'dynamic'", "'weight-only'", eager],
        "dynamic": ["'static'", "'weight-only'", eager],
        "weight-only": [],
        "given": [eager],
    }


@pytest.mark.parametrize(("scheme", "names"), [("static", ("0.0", "0.2")), ("dynamic", ("0.2",)), ("given", ())])
def test_nodes_to_exclude_are_the_submodules_that_a_scheme_takes(scheme: str, names: tuple[str, ...]) -> None:
    """By the names that the user's module has, inside of what wraps it; those that are excluded are no more of them."""
    convolution = nn.Conv2d(1, 2, 3)
    module: Any = torch.compile(
        nn.Sequential(nn.Sequential(convolution, nn.Flatten(), nn.Linear(72, 4)), nn.Linear(4, 2))
    )
    model = Model.from_torch(module, (torch.zeros(2, 1, 8, 8),))
    spec = EngineSpec("torch", "int8", scheme, model, exclude=("1",))
    assert get_backend("torch").quantized_nodes(spec) == names
