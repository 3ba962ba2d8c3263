"""Multiply-accumulates of programs against PyTorch's own counter and by formulas, and which products count as int8."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop
from torch.utils.flop_counter import FlopCounterMode

from pytest_quant.backends.torch.coverage import RanProduct, measure_coverage, products_of
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec, Model


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        """Call the function."""
        return self.function(*inputs)


def products(module: nn.Module, *inputs: Tensor) -> list[RanProduct]:
    """The products of the module's program."""
    return products_of(torch.export.export(module.eval(), inputs).module(), inputs)


def counted(call: Callable[..., Any], *inputs: Tensor) -> int:
    """What PyTorch counts, two operations for each multiply-accumulate."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        call(*inputs)
    return int(counter.get_total_flops()) // 2


def agrees(call: Callable[..., Any], *inputs: Tensor) -> None:
    """Each product is counted, once."""
    module = call if isinstance(call, nn.Module) else Function(call)
    assert sum((each.macs or 0) for each in products(module, *inputs)) == counted(call, *inputs)


def test_matrices() -> None:
    """Whatever a product is spelled as; no two sizes are equal, so that none is taken for another."""
    n, m, k, p = 2, 3, 4, 5
    a, b, batch = torch.ones(m, k), torch.ones(k, p), torch.ones(n, m, k)
    agrees(torch.mm, a, b)
    agrees(torch.matmul, batch, b)
    agrees(lambda x, y: torch.einsum("nmk,kp->pnm", x, y), batch, b)
    agrees(lambda x, y: torch.einsum("mk,kp,pm->m", x, y, (x @ y).T), a, b)
    agrees(lambda x, y: torch.tensordot(x, y, ([2], [0])), batch, b)
    agrees(torch.bmm, batch, torch.ones(n, k, p))
    agrees(torch.baddbmm, torch.ones(n, m, p), batch, torch.ones(n, k, p))
    agrees(nn.Linear(k, p), batch)


@pytest.mark.parametrize(
    ("axes", "groups", "stride", "kernel"),
    [(1, 1, 1, 1), (1, 3, 2, 2), (2, 1, 2, 3), (2, 2, 1, 2), (3, 2, 2, 3), (3, 1, 1, 1)],
)
def test_convolutions(axes: int, groups: int, stride: int, kernel: int) -> None:
    """Of one to three axes, with groups, steps and padding, forth and back."""
    inputs, outputs = 2, 5
    forth: Any = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1]
    back: Any = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[axes - 1]
    for kind in (forth, back):
        layer = kind(inputs * groups, outputs * groups, kernel, stride=stride, groups=groups, padding=kernel // 2)
        agrees(layer, torch.ones(2, inputs * groups, *(5, 4, 6)[:axes]))


@pytest.mark.parametrize(("kind", "gates"), [(nn.RNN, 1), (nn.GRU, 3), (nn.LSTM, 4)])
@pytest.mark.parametrize(("depth", "both"), [(1, False), (2, True)])
def test_recurrent_layers(kind: Any, gates: int, depth: int, both: bool) -> None:
    """Each step of each layer and direction: the weights of all gates, for what comes in and for the state."""
    n, steps, inputs, hidden = 2, 3, 4, 5
    directions = 1 + both
    widths = [inputs] + [directions * hidden] * (depth - 1)
    expected = sum(n * steps * directions * gates * hidden * (width + hidden) for width in widths)
    layer = kind(inputs, hidden, num_layers=depth, bidirectional=both, batch_first=True)
    (product,) = products(layer, torch.ones(n, steps, inputs))
    assert product.macs == expected


@pytest.mark.parametrize("masked", [False, True])
def test_attention(masked: bool) -> None:
    """Each query with each key, and with each value: as where it is written as two products."""
    n, heads, m, k, width, out = 2, 3, 4, 5, 6, 7
    queries, keys, values = (torch.ones(n, heads, *size) for size in ((m, width), (k, width), (k, out)))
    mask = (torch.zeros(m, k),) if masked else ()
    expected = counted(lambda q, k, v: (q @ k.mT).softmax(-1) @ v, queries, keys, values)
    attention = Function(nn.functional.scaled_dot_product_attention)
    assert sum((each.macs or 0) for each in products(attention, queries, keys, values, *mask)) == expected


def test_products_with_formulas_of_their_own() -> None:
    """A bilinear layer, sums of products, products with vectors."""
    spelled: list[tuple[Callable[..., Any], tuple[tuple[int, ...], ...], int]] = [
        (nn.Bilinear(3, 5, 4), ((2, 3), (2, 5)), 2 * 4 * 3 * 5),
        (torch.addbmm, ((2, 5), (3, 2, 4), (3, 4, 5)), 3 * 2 * 4 * 5),
        (torch.mv, ((2, 5), (5,)), 2 * 5),
        (torch.dot, ((5,), (5,)), 5),
    ]
    for call, shapes, expected in spelled:
        module = call if isinstance(call, nn.Module) else Function(call)
        (product,) = products(module, *map(torch.ones, shapes))
        assert product.macs == expected


class Loop(nn.Module):
    """A layer that a loop runs five times."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Any:
        """Keep the shape (n, 8)."""
        loop: Any = while_loop
        return loop(lambda i, _: i < 5, lambda i, x: (i + 1, self.layer(x)), (torch.tensor(0), x))[1]


class Branch(nn.Module):
    """Two layers for large inputs and one for others, a block without gradients, and another one in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.yes, self.no, self.still, self.short = (nn.Linear(8, width) for width in (8, 8, 4, 2))

    def forward(self, x: Tensor) -> Any:
        """Map (n, 8) to three shapes."""
        x = torch.cond(x.sum() > 1e9, lambda x: self.yes(self.yes(x)), lambda x: self.no(x) + 1, (x,))
        with torch.no_grad():
            still = self.still(x)
        with torch.autocast("cpu", torch.bfloat16):
            return x, still, self.short(x)


def test_bodies_of_branches_loops_and_contexts_are_seen() -> None:
    """Each counts as often as it runs, in the type that it multiplies."""
    x = torch.ones(3, 8)
    (looped,) = products(Loop(), x)
    assert looped.macs == 5 * 3 * 8 * 8
    no, still, short = products(Branch(), x)
    assert [no.macs, still.macs, short.macs] == [3 * 8 * 8, 3 * 8 * 4, 3 * 8 * 2]
    assert [each.computed_in for each in (no, still, short)] == ["torch.float32", "torch.float32", "torch.bfloat16"]
    assert (still.name, short.name) == ("still", "short")


class Held(nn.Module):
    """Weights in integers, and a mask in integers that is no weight."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(8, 8, dtype=torch.int8))
        self.register_buffer("scale", torch.ones(8))
        self.register_buffer("mask", torch.ones(4, 4, dtype=torch.uint8))

    def forward(self, x: Tensor) -> Tensor:
        """Map (4, 8) to (4, 4)."""
        held: Any = self
        with torch.no_grad():
            x = x @ (held.weight.float() * held.scale)
        scores: Tensor = x @ x.T + held.mask
        return scores @ x


def test_weights_in_integers_are_known() -> None:
    """Also within a block; what is added to scores makes no weight of them."""
    assert [each.is_held for each in products(Held(), torch.ones(4, 8))] == [True, False, False]


def test_weights_that_are_folded_are_no_products() -> None:
    """A layer of low rank whose weight is a product of two: one product is left of it."""
    low, high = nn.Parameter(torch.ones(8, 2)), nn.Parameter(torch.ones(2, 8))
    module = Function(lambda x: x @ (module.low @ module.high))  # type: ignore[operator]
    module.low, module.high = low, high
    assert [each.macs for each in products(module, torch.ones(3, 8))] == [3 * 8 * 8]


def product(name: str, macs: int, *, is_held: bool = False, op: str = "aten.linear") -> RanProduct:
    """A product of that size."""
    return RanProduct(name, op, macs, "torch.float32", (macs, macs, macs), is_held)


def measured(scheme: str | None, found: list[RanProduct], **seen: int) -> Coverage:
    """The coverage of an engine, where so many products of these many elements were seen in integers."""
    spec = EngineSpec("torch", "int8" if scheme else "fp32", scheme, Model.from_torch(nn.Identity(), (), name="m"))
    sizes = Counter({(int(size[1:]),) * 3: count for size, count in seen.items()})
    return measure_coverage(found, sizes, spec, "cpu")


def test_of_two_products_of_a_size_the_one_with_weights_in_integers_is_meant() -> None:
    """An excluded layer is not taken for its neighbour."""
    found = [product("excluded", 8), product("layer", 8, is_held=True), product("other", 4)]
    coverage = measured("static", found, _8=1)
    assert coverage.pct == pytest.approx(100 * 8 / 20)
    assert coverage.asked_nodes == ("layer",)
    assert coverage.float_nodes == ("excluded", "other")


def test_what_is_in_integers_somewhere_is_not_called_float() -> None:
    """Two layers that became one: its size is that of neither, so that both may be it."""
    found = [product("q", 8, is_held=True), product("k", 8, is_held=True), product("f", 16), product("o", 8)]
    coverage = measured("static", found, _16=1, _32=1)
    assert (coverage.pct, coverage.high_pct, coverage.opaque_nodes) == (40.0, 80.0, 2)
    assert coverage.float_nodes == ("o",)


def test_a_reference_with_products_in_integers_is_none() -> None:
    """What Inductor was given in integers does not count as float32."""
    assert measured(None, [product("a", 8), product("b", 24)], _24=1).pct == 25.0


@pytest.mark.parametrize("scheme", ["dynamic", "weight-only"])
def test_what_takes_linear_layers_only_names_the_rest(scheme: str) -> None:
    """A recurrent body is nothing that these could quantize, and part of the compute."""
    head = replace(product("head", 1, is_held=True), is_widened=scheme == "weight-only")
    found = [product("body", 99, op="aten.lstm"), head]
    coverage = measured(scheme, found, **({"_1": 1} if scheme == "dynamic" else {}))
    assert (coverage.pct, coverage.scheme_pct) == (1.0, 100.0)
    assert coverage.not_quantizable == {"aten.lstm": 99.0}
