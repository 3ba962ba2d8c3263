"""Modules as people have them, in PyTorch and as ONNX: each is compared as it is, or one error says what to do."""

from __future__ import annotations

import threading
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pytest_quant.backends import get_backend
from pytest_quant.backends.torch.export import export_onnx
from pytest_quant.backends.torch.module import copy_of, signature_of
from pytest_quant.errors import BuildError, ModelError, QuantError
from pytest_quant.spec import EngineSpec, Model

TORCH = get_backend("torch")
X = torch.linspace(-1, 1, 16).reshape(2, 8)
Pair = namedtuple("Pair", "first second")  # noqa: PYI024 - as people have them


class Net(nn.Module):
    """A layer, and what `function` makes of it and the inputs."""

    def __init__(self, function: Callable[..., Any] = lambda layer, x: layer(x)) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8)
        self.function = function

    def forward(self, x: Any) -> Any:
        """Apply the function."""
        return self.function(self.layer, x)


class ByName(nn.Module):
    """Takes its inputs by name only."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, *, x: Tensor, mask: Tensor | None = None, twice: bool = False) -> Any:
        """Apply the layer."""
        y = self.layer(x) if mask is None else self.layer(x) * mask
        return 2 * y if twice else y


@dataclass
class ModelOutput:
    """What networks of Hugging Face return, without the package."""

    logits: Tensor
    loss: Tensor | None = None
    hidden_states: tuple[Tensor, ...] = ()


@dataclass
class State:
    """A state with a flag beside it."""

    h: Tensor
    is_first: bool = True


def generated(layer: Any, x: Tensor) -> Any:
    """Give outputs one by one."""
    yield layer(x)


def hooked() -> nn.Module:
    """A module with hooks of the user's own."""
    module = Net()
    module.register_forward_pre_hook(lambda _, inputs: (inputs[0] + 1,))
    module.register_forward_hook(lambda _module, _inputs, output: output * 2)
    return module


def tied() -> nn.Module:
    """Two layers with one weight, one buffer under two names, in training mode."""
    module = nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.Linear(8, 8))
    module[2].weight = module[0].weight
    for child in (module[0], module[2]):
        child.register_buffer("shared", X)
    return module.train()


def locked() -> nn.Module:
    """A module with something that cannot be copied."""
    module = Net()
    vars(module)["lock"] = threading.Lock()
    return module


def after_a_run() -> nn.Module:
    """A module that keeps its last output, and has one."""

    def kept(layer: Any, x: Tensor) -> Tensor:
        layer.last = layer(x)
        last: Tensor = layer.last
        return last

    module = Net(kept)
    module(X)
    return module


def compiled_inside() -> nn.Module:
    """A layer that is compiled alone."""
    layer: Any = torch.compile(nn.Linear(8, 8))
    return nn.Sequential(layer)


def emptied() -> nn.Module:
    """A network without a layer, which is false as a condition."""
    return nn.Sequential()


TAKEN: dict[str, tuple[Callable[[], nn.Module], Any, list[str], list[str]]] = {
    "a dataclass": (
        lambda: Net(lambda f, x: ModelOutput(f(x), None, (x * 2,))),
        (X,),
        ["x"],
        ["logits", "hidden_states.0"],
    ),
    "a named tuple": (lambda: Net(lambda f, x: Pair(f(x), x * 2)), (X,), ["x"], ["output_0", "output_1"]),
    "dicts": (lambda: Net(lambda f, x: {"y": [f(x["a"][0])]}), ({"a": [X], "n": 3},), ["x.a.0"], ["y.0"]),
    "a dataclass taken": (lambda: Net(lambda f, x: f(x.h) if x.is_first else x.h), (State(X),), ["x.h"], ["output"]),
    "names only": (ByName, {"x": X, "mask": None, "twice": True}, ["x"], ["output"]),
    "in place": (lambda: Net(lambda f, x: f(x.add_(1))), (X,), ["x"], ["output"]),
    "a gradient": (Net, (X.clone().requires_grad_(),), ["x"], ["output"]),
    "hooks": (hooked, (X,), ["x"], ["output"]),
    "tied": (tied, (X,), ["input"], ["output"]),
    "no parameter": (nn.Softmax, (X,), ["input"], ["output"]),
    "no layer": (emptied, (X,), ["input"], ["output"]),
    "a scalar": (lambda: Net(lambda f, x: f(x).sum()), (X,), ["x"], ["output"]),
    "a weight returned": (lambda: Net(lambda f, x: (f(x), f.weight)), (X,), ["x"], ["output_0", "output_1"]),
    "its last output": (after_a_run, (X,), ["x"], ["output"]),
    "parametrized": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)), (X,), ["input"], ["output"]),
    "spectral_norm": (lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(8, 8))), (X,), ["input"], ["output"]),
    "compiled inside": (compiled_inside, (X,), ["input"], ["output"]),
}


EXPORTED = ("a dataclass", "dicts", "in place", "a scalar")
"""Those whose ONNX file differs from what others show; each takes a second or two."""


@pytest.mark.filterwarnings("ignore:.*deprecated.*")
@pytest.mark.parametrize("kind", TAKEN)
def test_what_is_taken(kind: str, tmp_path: Path) -> None:
    """PyTorch's program and an ONNX file have its inputs and outputs by name; the user's module stays as it was."""
    make, examples, inputs, outputs = TAKEN[kind]
    module = make()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = Model.from_torch(module, examples, name=kind)
    signature = signature_of(model)
    assert ([each.name for each in signature.inputs], [each.name for each in signature.outputs]) == (inputs, outputs)
    spec = EngineSpec("torch", "fp32", None, model, options=(("compiled", False),))
    TORCH.build(spec, None, tmp_path)
    feeds = {name: np.linspace(-2, 2, 24, dtype=np.float32).reshape(3, 8) for name in inputs}
    kept = {name: feed.copy() for name, feed in feeds.items()}
    with TORCH.open(spec, tmp_path) as engine:
        assert list(engine.run(feeds)) == outputs
    assert all(np.array_equal(feeds[name], kept[name]) for name in inputs)
    if kind in EXPORTED:
        # The file is compared with the module there.
        assert export_onnx(model, tmp_path).exists()
    assert {name: torch.equal(value, before[name]) for name, value in module.state_dict().items()} == dict.fromkeys(
        before, True
    )


REFUSED: dict[str, tuple[Callable[[], Any], Any, str]] = {
    "meta": (lambda: nn.Linear(8, 8, device="meta"), (X,), r"without values[\s\S]*to_empty\(device='cpu'\)"),
    "lazy": (lambda: nn.LazyLinear(8), (X,), r"without a size[\s\S]*module\(\*example_inputs\)"),
    "half": (lambda: Net().half(), (X.half(),), r"float16 at 'layer\.weight'[\s\S]*module\.float\(\)"),
    "script": (lambda: torch.jit.script(nn.Linear(8, 8)), (X,), "TorchScript"),
    "sparse": (Net, (X.to_sparse(),), r"sparse[\s\S]*'x'[\s\S]*to_dense"),
    "complex": (lambda: Net(lambda f, x: torch.fft.fft(f(x))), (X,), r"complex64 at 'output'[\s\S]*view_as_real"),
    "generator": (lambda: Net(generated), (X,), "generator at 'output'"),
    "text": (lambda: Net(lambda f, x: {"y": f(x), "name": "a"}), (X,), "str at 'name'"),
    "nothing": (lambda: Net(lambda *_: None), (X,), "NoneType"),
    "numpy": (Net, (np.zeros((2, 8), np.float32),), "ndarray at 'x'"),
    "a class": (lambda: Net, (X,), "not a torch.nn.Module"),
    "positions": (ByName, (X,), "a dict of those it takes by name"),
    "a lock": (locked, (X,), "copy.deepcopy"),
    "it raises": (lambda: Net(lambda *_: 1 / 0), (X,), "division by zero"),
}


@pytest.mark.filterwarnings("ignore:.*(deprecated|lazy).*")
@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused(kind: str, tmp_path: Path) -> None:
    """Both say the same: what, where it is, and what to do."""
    make, examples, said = REFUSED[kind]
    model = Model.from_torch(make(), examples, name=kind)
    for step in (lambda: signature_of(model), lambda: export_onnx(model, tmp_path)):
        with pytest.raises(ModelError, match=said):
            step()


FOLLOWED: dict[str, Callable[[], tuple[nn.Module, Any]]] = {
    "meta": lambda: (filled(nn.Linear(8, 8, device="meta")), (X,)),
    "lazy": lambda: (ran(nn.LazyLinear(8)), (X,)),
    "half": lambda: (Net().half().float(), (X.half().float(),)),
    "sparse": lambda: (Net(), (X.to_sparse().to_dense(),)),
    "complex": lambda: (Net(lambda f, x: torch.view_as_real(torch.fft.fft(f(x)))), (X,)),
    "positions": lambda: (ByName(), {"x": X}),
}


def filled(module: nn.Module) -> nn.Module:
    """Do what the error says of a module without values."""
    module.to_empty(device="cpu").load_state_dict(nn.Linear(8, 8).state_dict())
    return module


def ran(module: nn.Module) -> nn.Module:
    """Do what the error says of a module without sizes."""
    module(X)
    return module


@pytest.mark.filterwarnings("ignore:.*lazy.*")
@pytest.mark.parametrize("kind", FOLLOWED)
def test_the_next_step_works(kind: str) -> None:
    """What an error says to do makes a model of it."""
    assert signature_of(Model.from_torch(*FOLLOWED[kind]())).outputs


class OfOneLength(nn.Module):
    """A recurrent layer, which PyTorch traces at one length of its sequences only."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(8, 4, batch_first=True)

    def forward(self, x: Tensor, scale: Tensor) -> Any:
        """Scale the outputs."""
        return self.layer(x)[0] * scale


def test_an_axis_that_cannot_be_free_is_named_with_what_can_be(tmp_path: Path) -> None:
    """What the error says to write is traced in PyTorch and for ONNX, and no other backend is advised."""
    examples = torch.randn(2, 5, 8), torch.ones(2, 1, 1)
    model = Model.from_torch(OfOneLength(), examples, dynamic={"x": (0, 1), "scale": (0,)})
    with pytest.raises(BuildError) as raised:
        export_onnx(model, tmp_path)
    assert raised.value.value == "axis 1 of 'x'"
    written = "write Model.from_torch(..., dynamic={'x': (0,), 'scale': (0,)})"
    assert raised.value.fix == written
    fixed = Model.from_torch(OfOneLength(), examples, dynamic={"x": (0,), "scale": (0,)})
    assert export_onnx(fixed, tmp_path).exists()
    TORCH.build(EngineSpec("torch", "fp32", None, fixed), None, tmp_path)


def test_what_cannot_be_traced_is_sent_nowhere_else(tmp_path: Path) -> None:
    """PyTorch traces it no more than ONNX does; with ``torch.cond``, as the error says, both do."""
    branching = Net(lambda f, x: f(x) if x.sum() > 0 else x)
    for write in (
        lambda model: export_onnx(model, tmp_path),
        lambda model: TORCH.build(EngineSpec("torch", "fp32", None, model), None, tmp_path),
    ):
        with pytest.raises(QuantError) as raised:
            write(Model.from_torch(branching, (X,)))
        assert "backend=" not in str(raised.value.fix)
        assert "torch.cond" in str(raised.value.fix)
        write(
            Model.from_torch(Net(lambda f, x: torch.cond(x.sum() > 0, lambda x: f(x), lambda x: x.clone(), (x,))), (X,))
        )


def test_the_original_keeps_its_parametrizations() -> None:
    """The copy has plain weights, equal ones, and the original computes its own before and after."""
    module = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))
    wanted = module(X)
    copied = copy_of(Model.from_torch(module, (X,)))
    assert type(copied) is nn.Linear
    assert torch.allclose(copied(X), wanted)
    assert torch.equal(module(X), wanted)
    assert torch.nn.utils.parametrize.is_parametrized(module)
