"""What torch-cuda does of the process's switches, with tensors that stay on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor

from pytest_quant.backends.torch.engine import TorchCudaEngine, TorchEngine, load_on_device
from pytest_quant.backends.torch.program import PROGRAM_FILE, engine_ingredients, load_program, write_engine
from pytest_quant.spec import EngineSpec
from pytest_quant.testing.conformance.examples import dense, module_model

BACKENDS: Any = torch.backends
SWITCHES = (BACKENDS.cuda.matmul, BACKENDS.cudnn.conv, BACKENDS.cudnn.rnn)


class OnCpu(TorchCudaEngine):
    """The engine for a GPU, its tensors left where they are, which notes the switches within each run."""

    def __init__(self, spec: EngineSpec, folder: Path) -> None:
        super().__init__(spec, folder)
        self.seen: list[tuple[str, ...]] = []

    def _tensors(self, feeds: Any) -> Any:
        return TorchEngine._tensors(self, feeds)

    def _load(self) -> Any:
        return TorchEngine._load(self)

    def _program(self, shapes: Any, tensors: Any) -> Any:
        program = super()._program(shapes, tensors)

        def noted(*inputs: Any) -> Any:
            self.seen.append(switches())
            return program(*inputs)

        return noted


@pytest.fixture(autouse=True)
def flags() -> Iterator[None]:
    """Put PyTorch's switches back."""
    legacy = BACKENDS.cuda.matmul.allow_tf32, BACKENDS.cudnn.allow_tf32
    # Exporting writes into the switch of all of cuDNN what that inherited.
    everything = (BACKENDS, BACKENDS.cudnn, *SWITCHES)
    before = [switch.fp32_precision for switch in everything]
    yield
    BACKENDS.cuda.matmul.allow_tf32, BACKENDS.cudnn.allow_tf32 = legacy
    for switch, precision in zip(everything, before, strict=True):
        switch.fp32_precision = precision


def switches() -> tuple[str, ...]:
    """Those for matrix products, for convolutions and for recurrent layers."""
    return tuple(switch.fp32_precision for switch in SWITCHES)


def opened(folder: Path, *, tf32: bool, compiled: bool) -> OnCpu:
    """An engine over a program that it wrote."""
    options = (("compiled", compiled), ("tf32", tf32))
    spec = EngineSpec("torch-cuda", "fp32", None, module_model(dense()), options=options)
    folder = folder / str(tf32)
    folder.mkdir()
    write_engine(spec, None, folder)
    return OnCpu(spec, folder)


@pytest.mark.parametrize("compiled", [False, True])
def test_two_engines_take_turns(tmp_path: Path, compiled: bool) -> None:
    """Whoever ran before, and whatever the user's code set; nothing is compiled anew for it."""
    engines = [opened(tmp_path, tf32=tf32, compiled=compiled) for tf32 in (False, True)]
    feeds = dense().feeds(4, 1)
    calls = [engine._call(feeds) for engine in engines]
    compiled_graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for turn in (0, 1, 1, 0, 1, 0):
        BACKENDS.cudnn.conv.fp32_precision = ("tf32", "ieee")[turn]
        calls[turn]()
    assert [engine.seen for engine in engines] == [[("ieee",) * 3] * 3, [("tf32",) * 3] * 3]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == compiled_graphs
    outputs = [engine.run(feeds)["y"] for engine in engines]
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-5)
    for engine in engines:
        engine.close()


def set_legacy() -> None:
    """What code for older versions says."""
    BACKENDS.cuda.matmul.allow_tf32 = True


def set_matmul() -> None:
    """What the documentation says since 2.9."""
    BACKENDS.cuda.matmul.fp32_precision = "tf32"


def set_all() -> None:
    """The same for everything."""
    BACKENDS.fp32_precision = "tf32"


@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize("users", [set_legacy, set_matmul, set_all])
def test_the_users_switches_do_not_matter_and_stay(tmp_path: Path, users: Callable[[], None], tf32: bool) -> None:
    """By new names or old ones, in a conftest: a run has the engine's, and code after it the user's."""
    users()
    before = switches()
    assert "tf32" in before
    engine = opened(tmp_path, tf32=tf32, compiled=False)
    assert len(engine.run(dense().feeds(4, 1))["y"]) == 4
    assert engine.seen == [("tf32" if tf32 else "ieee",) * 3]
    assert switches() == before
    if users is set_legacy:
        assert BACKENDS.cuda.matmul.allow_tf32
    engine.close()


def test_an_engine_with_tf32_is_another_one() -> None:
    """Its outputs are not those of exact FP32, so that one is never taken for the other; off is as it always was."""
    model = module_model(dense())
    kinds = [
        engine_ingredients(EngineSpec("torch-cuda", "fp32", None, model, options=options))
        for options in ((), (("tf32", False),), (("tf32", True),))
    ]
    assert kinds[0] == kinds[1]
    assert kinds[2] == {**kinds[0], "TF32": "allowed"}


@pytest.mark.parametrize(("precision", "scheme"), [("fp32", None), ("int8", "weight-only")])
def test_a_program_takes_tensors_of_the_device_with_fake_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str, scheme: str | None
) -> None:
    """Tensors without values know their device as real ones do, ``cuda:0``; a program asserts it of its weights."""
    spec = EngineSpec("torch-cuda", precision, scheme, module_model(dense()))
    write_engine(spec, None, tmp_path)
    program = load_program(tmp_path / PROGRAM_FILE)
    values = [node.meta.get("val") for node in program.graph.nodes]
    mode = next(value.fake_mode for value in values if isinstance(value, FakeTensor))
    for name, weight in program.state_dict.items():
        program._state_dict[name] = torch.nn.Parameter(mode.from_tensor(weight), requires_grad=False)
    monkeypatch.setattr("pytest_quant.backends.torch.engine.load_program", lambda _: program)
    with torch.no_grad(), mode:
        inputs = [torch.empty(array.shape, device="cuda:0") for array in dense().feeds(4, 1).values()]
        outputs = load_on_device(tmp_path / PROGRAM_FILE).module()(*inputs)
    assert {output.device for output in outputs.values()} == {torch.device("cuda:0")}
