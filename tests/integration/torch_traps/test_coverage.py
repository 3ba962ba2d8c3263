"""Coverage by multiply-accumulates that are counted by hand, whatever kernels Inductor writes by itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
import torch._inductor.config
from torch import Tensor, nn
from torch.nn import functional

from pytest_quant.backends import Feeds
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec, Model
from tests.integration.torch_traps.test_torch import TORCH, build


class Chain(nn.Module):
    """A body that is left in float, or partly, and a linear layer behind it."""

    def __init__(self, body: nn.Module, width: int, out: int) -> None:
        super().__init__()
        self.body, self.head = body, nn.Linear(width, out)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, ...) to (n, ..., out)."""
        made = self.body(x)
        made = made[0] if isinstance(made, tuple) else made
        result: Tensor = self.head(made)
        return result


class Einsum(nn.Module):
    """A product that is no layer."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / inputs**0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, inputs) to (n, outputs)."""
        return torch.einsum("nd,dk->nk", x, self.weight)


class Attention(nn.Module):
    """One query for each sample, over rows that are no layer's."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.keys, self.values = nn.Parameter(torch.randn(rows, width)), nn.Parameter(torch.randn(rows, width))

    def forward(self, x: Tensor) -> Tensor:
        """Keep the shape (n, 1, width)."""
        keys, values = (rows.expand(x.shape[0], -1, -1) for rows in (self.keys, self.values))
        return functional.scaled_dot_product_attention(x, keys, values)


class Tied(nn.Module):
    """Two layers with the same weights, behind a product that is no layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.product, self.first, self.second = Einsum(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        """Keep the shape (n, width)."""
        result: Tensor = self.second(torch.relu(self.first(self.product(x))))
        return result


@dataclass(frozen=True)
class Case:
    """A module, the shape of a sample, and its multiply-accumulates for each.

    Attributes
    ----------
    floats : of what no scheme quantizes here.
    linear : of linear layers, which each scheme quantizes.
    convolved : of convolutions over images, which ``static`` quantizes.
    shared : of linear layers with weights in common, which Inductor multiplies in float; held in integers all the same.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    floats: int
    linear: int
    convolved: int = 0
    shared: int = 0


STEPS, IN, HIDDEN, OUT = 2, 8, 16, 24
CASES = {
    "lstm": Case(
        lambda: Chain(nn.LSTM(IN, HIDDEN, batch_first=True), HIDDEN, OUT),
        (STEPS, IN),
        floats=STEPS * 4 * HIDDEN * (IN + HIDDEN),
        linear=STEPS * HIDDEN * OUT,
    ),
    "gru": Case(
        lambda: Chain(nn.GRU(IN, HIDDEN, batch_first=True), HIDDEN, OUT),
        (STEPS, IN),
        floats=STEPS * 3 * HIDDEN * (IN + HIDDEN),
        linear=STEPS * HIDDEN * OUT,
    ),
    "conv1d": Case(lambda: Chain(nn.Conv1d(4, 6, 3), 8, OUT), (4, 10), floats=8 * 6 * 4 * 3, linear=6 * 8 * OUT),
    "conv2d": Case(
        lambda: Chain(nn.Conv2d(4, 6, 3, groups=2), 8, OUT),
        (4, 10, 10),
        floats=0,
        linear=6 * 8 * 8 * OUT,
        convolved=8 * 8 * 6 * 2 * 3 * 3,
    ),
    "conv3d": Case(
        lambda: Chain(nn.Conv3d(2, 6, 3), 4, OUT),
        (2, 6, 6, 6),
        floats=4 * 4 * 4 * 6 * 2 * 3 * 3 * 3,
        linear=6 * 4 * 4 * 4 * OUT,
    ),
    "transposed": Case(
        lambda: Chain(nn.ConvTranspose2d(4, 6, 2, stride=2), 8, OUT),
        (4, 4, 4),
        floats=4 * 4 * 4 * 6 * 2 * 2,
        linear=6 * 8 * 8 * OUT,
    ),
    "einsum": Case(lambda: Chain(Einsum(64, 32), 32, OUT), (64,), floats=64 * 32, linear=32 * OUT),
    "attention": Case(lambda: Chain(Attention(50, IN), IN, OUT), (1, IN), floats=2 * 50 * IN, linear=IN * OUT),
    "tied": Case(lambda: Tied(HIDDEN), (HIDDEN,), floats=HIDDEN * HIDDEN, linear=0, shared=2 * HIDDEN * HIDDEN),
    "max-autotune": Case(
        lambda: nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, OUT)),
        (32, 64),
        floats=0,
        linear=32 * (64 * 128 + 128 * OUT),
    ),
}


def covered(case: Case, folder: Path, scheme: str | None, precision: str = "int8", *batches: int) -> list[Coverage]:
    """Build the engine and read its coverage back for each batch size, 1 by default."""
    torch.manual_seed(0)
    model = Model.from_torch(case.make().eval(), (torch.randn(2, *case.shape),))
    spec = EngineSpec("torch", precision, scheme, model)
    (name,) = (tensor.name for tensor in TORCH.signature(model).inputs)

    def feeds(batch: int) -> Feeds:
        return {name: np.random.default_rng(batch).normal(size=(batch, *case.shape)).astype(np.float32)}

    with build(spec, folder, lambda: iter([feeds(4)])) as engine:
        return [engine.coverage(feeds(batch)) for batch in batches or (1,)]


# Dynamic engines with max-autotune are left out: torch 2.13 writes a kernel for them that corrupts the heap.
@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        (name, scheme)
        for name in CASES
        for scheme in ("static", "dynamic", "weight-only")
        if (name, scheme) != ("max-autotune", "dynamic")
    ],
)
def test_coverage_is_what_a_hand_counts(name: str, scheme: str, tmp_path: Path) -> None:
    """For one sample, for which Inductor writes most kernels by itself; with max-autotune all of them."""
    case = CASES[name]
    # Inductor has no product of its own whose weights are widened.
    backends = "CPP" if scheme == "static" else "ATEN,CPP"
    autotunes = torch._inductor.config.patch(max_autotune=True, max_autotune_gemm_backends=backends)
    with autotunes if name == "max-autotune" else nullcontext():
        (coverage,) = covered(case, tmp_path, scheme)
    done = case.linear + {"static": case.convolved, "dynamic": 0, "weight-only": case.shared}[scheme]
    of_linear = case.linear + case.shared
    total = of_linear + case.convolved + case.floats
    assert (coverage.unit, coverage.opaque_nodes) == ("MACs", 0)
    assert sum(row.macs or 0 for row in coverage.by_op) == total
    assert coverage.pct == pytest.approx(100 * done / total)
    assert coverage.scheme_pct == pytest.approx(100 * done / (total if scheme == "static" else of_linear))


def test_the_batch_size_does_not_matter(tmp_path: Path) -> None:
    """Which products Inductor writes by itself depends on it, and what share they are does not."""
    one, eight = covered(CASES["einsum"], tmp_path, "static", "int8", 1, 8)
    assert one.pct == eight.pct


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_floats_are_proven_in_kernels_that_inductor_writes(precision: str, tmp_path: Path) -> None:
    """All of a module of which a profile shows nothing is in the asked precision, and none of it in another."""
    (coverage,) = covered(CASES["einsum"], tmp_path, None, precision)
    assert (coverage.pct, coverage.opaque_nodes, coverage.float_nodes) == (100.0, 0, ())
    assert [row.macs for row in coverage.by_op] == [64 * 32, 32 * OUT]


def test_a_product_written_in_float_is_float(tmp_path: Path) -> None:
    """A layer with one output, for one sample: Inductor widens its weights and adds up in float32, Q/DQ or not."""
    case = Case(lambda: nn.Linear(64, 1), (64,), floats=0, linear=64)
    one, two = covered(case, tmp_path, "static", "int8", 1, 2)
    assert (one.pct, two.pct) == (0.0, 100.0)
