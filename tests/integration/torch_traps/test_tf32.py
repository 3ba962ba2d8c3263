"""Each engine of ``torch-cuda`` runs with its own setting of TF32, a switch of the whole process; on the CPU here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pytest_quant.backends.torch.cuda_engine import TorchCudaEngine
from pytest_quant.backends.torch.engine import TorchEngine
from pytest_quant.backends.torch.program import engine_ingredients, write_engine
from pytest_quant.spec import EngineSpec
from pytest_quant.testing.conformance.examples import dense
from pytest_quant.testing.conformance.modules import module_model


class OnCpu(TorchCudaEngine):
    """The engine for a GPU, its tensors left where they are."""

    def _tensors(self, feeds: Any) -> Any:
        return TorchEngine._tensors(self, feeds)

    def _load(self) -> Any:
        return TorchEngine._load(self)


@pytest.fixture(autouse=True)
def flags() -> Iterator[None]:
    """Put PyTorch's switches back."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def switches() -> tuple[bool, bool]:
    """Those for matrix products and for convolutions."""
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize("compiled", [False, True])
def test_two_engines_take_turns(tmp_path: Path, compiled: bool) -> None:
    """Whoever ran before, and whatever the user's code set; nothing is compiled anew for it."""
    example = dense()
    engines = []
    for tf32 in (False, True):
        options = (("compiled", compiled), ("tf32", tf32))
        spec = EngineSpec("torch-cuda", "fp32", None, module_model(example), options=options)
        folder = tmp_path / str(tf32)
        folder.mkdir()
        write_engine(spec, None, folder)
        engines.append(OnCpu(spec, folder))
    feeds = example.feeds(4, 1)
    calls = [engine._call(feeds) for engine in engines]
    compiled_graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    seen = []
    for turn in (0, 1, 1, 0, 1, 0):
        torch.backends.cudnn.allow_tf32 = turn == 0
        calls[turn]()
        seen.append((turn, *switches()))
    assert seen == [(turn, bool(turn), bool(turn)) for turn in (0, 1, 1, 0, 1, 0)]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == compiled_graphs
    outputs = [engine.run(feeds)["y"] for engine in engines]
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-5)
    for engine in engines:
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
