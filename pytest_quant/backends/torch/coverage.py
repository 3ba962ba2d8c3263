"""The products of a program, counted as it runs, and the products that Inductor was given to compute in integers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Interpreter
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from pytest_quant.backends.readback import (
    Kind,
    Tallied,
    attention_macs,
    convolution_macs,
    matrix_macs,
    product_kind,
    recurrent_macs,
    tally,
)
from pytest_quant.backends.torch.module import submodule_of
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec

Sizes = tuple[int, int, int]
"""How many elements the first operand, the second and the output of a product have; no layout changes them."""

_BYTES = (torch.int8, torch.uint8)
_MATRICES = {
    **dict.fromkeys(("_grouped_mm", "_int_mm", "_scaled_mm", "_weight_int8pack_mm", "bmm", "dot", "mm", "mv"), 0),
    **dict.fromkeys(("_addmm_activation", "addbmm", "addmm", "addmv", "baddbmm"), 1),
}
"""Products of matrices and vectors, and the place of the first one among the arguments."""
_OF_THREE = {
    "_scaled_dot_product_flash_attention_for_cpu": attention_macs,
    "flex_attention": attention_macs,
    "mkldnn_rnn_layer": recurrent_macs,
}
"""Operators that multiply their first three arguments."""

_LINEAR = ("aten.addmm", "aten.linear", "aten.mm")
"""Products of linear layers, which are all that ``dynamic`` and ``weight-only`` take."""


@dataclass(frozen=True, slots=True)
class RanProduct:
    """An operator of a program that multiplies and accumulates.

    Attributes
    ----------
    name : the submodule that it is computed in; where that is the model itself, the function that its node calls.
    op : the operator, ``aten.linear`` for example.
    macs : its multiply-accumulates, all steps and layers of a recurrent one among them; ``None`` where they and its
        type cannot be seen.
    computed_in : the type of what it multiplies, as PyTorch spells it; an autocast counts.
    sizes : of its last product.
    is_held : it reads a weight in integers, whatever that is turned into before.
    is_widened : so it does, and the program rounds nothing else: it is to multiply in float.
    """

    name: str
    op: str
    macs: int | None
    computed_in: str
    sizes: Sizes
    is_held: bool
    is_widened: bool = False


def products_of(module: GraphModule, inputs: Sequence[torch.Tensor]) -> list[RanProduct]:
    """Return the products of a program in the order they run, those in bodies of branches and loops too.

    It is run for the sizes of its tensors, and with their values where those decide what runs.

    Parameters
    ----------
    module : of a ``torch.export.ExportedProgram``, on the CPU.
    inputs : in the program's order.
    """
    is_graph = isinstance(module, GraphModule)
    if is_graph and not any(isinstance(node.target, HigherOrderOperator) for node in module.graph.nodes):
        # Sizes and types are told without values, unless an operator asks for them.
        with suppress(Exception), FakeTensorMode(allow_non_fake_inputs=True) as sizes:
            return _products(module, [sizes.from_tensor(each) for each in inputs])
    return _products(module, inputs)


def _products(module: Any, inputs: Sequence[torch.Tensor]) -> list[RanProduct]:
    seen = _Multiplications()
    with torch.no_grad():
        if isinstance(module, GraphModule):
            _Reader(module, seen).run(*inputs)
        else:
            with seen:
                module(*inputs)
    return [replace(each, is_widened=each.is_held and not seen.rounds) for each in seen.found.values()]


class _Multiplications(TorchDispatchMode):
    """Sees what the operators of a program are made of, at a level where few multiply."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.node: Any = None
        self.found: dict[object, RanProduct] = {}
        self.made_of_bytes: MutableMapping[torch.Tensor, bool] = WeakTensorKeyDictionary()
        """Tensors that are made of weights alone, and whether one of those is in integers."""
        self.rounds = False
        """Something else was turned into bytes."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "prim":
            return func(*args, **kwargs)
        with self:
            # Within a branch or a loop, operators come whole.
            output = func.decompose(*args, **kwargs)
        if output is not NotImplemented:
            return output
        output = func(*args, **kwargs)
        made_of = [self.made_of_bytes.get(each) for each in tree_leaves((args, kwargs)) if torch.is_tensor(each)]
        is_constant = bool(made_of) and None not in made_of
        for each in filter(torch.is_tensor, tree_leaves(output)):
            if is_constant:
                self.made_of_bytes[each] = any(made_of)
            else:
                self.made_of_bytes.pop(each, None)
                self.rounds |= each.dtype in _BYTES and each.numel() > 0
        # A product of weights alone is folded.
        if not is_constant:
            self.count(str(func.overloadpacket).removeprefix("aten.").removesuffix("_"), args, output)
        return output

    def count(self, name: str, args: Sequence[Any], output: Any) -> None:
        """Add what an operator multiplies to the product of the node that runs."""
        operands, macs = _find_product(name, args, output)
        if macs == 0:
            return
        first, second = operands[:2]
        is_held = any(self.made_of_bytes.get(each) for each in operands)
        # The calls of a script have no nodes.
        key = (self.node, first.dtype, is_held) if self.node else len(self.found)
        before = self.found[key].macs or 0 if key in self.found else 0
        path = submodule_of(self.node) if self.node else ""
        self.found[key] = RanProduct(
            path or f"{getattr(self.node, 'name', f'{name}_{key}')}()",
            str(getattr(getattr(self.node, "target", name), "overloadpacket", getattr(self.node, "target", name))),
            None if macs is None else before + macs,
            str(second.dtype if second.dtype == torch.qint8 else first.dtype).replace("qint8", "int8"),
            (first.numel(), second.numel(), output.numel() if torch.is_tensor(output) else 0),
            is_held,
        )


def _find_product(name: str, args: Sequence[Any], output: Any) -> tuple[Sequence[torch.Tensor], int | None]:
    """Return what an operator multiplies, and its multiply-accumulates: 0 if it is no product, ``None`` if unknown."""
    if packed := [each for each in tree_leaves(args) if isinstance(each, torch.ScriptObject)]:
        return _find_packed_product(name, args[0], packed[0], output)
    if name in _MATRICES:
        operands = args[_MATRICES[name] :][:2]
        first, made = operands[0].shape, output.shape
        return operands, matrix_macs(first, first[:1] + made if name == "addbmm" else made)
    if name in ("_convolution", "_trilinear", "convolution"):
        operands, is_transposed = args[:2], name != "_trilinear" and args[6]
        return operands, convolution_macs((operands[0] if is_transposed else output).shape, operands[1].shape)
    count = _OF_THREE.get(name)
    return (args[:3], count(*(each.shape for each in args[:3]))) if count else ((), 0)


def _find_packed_product(
    name: str, first: torch.Tensor, packed: Any, output: Any
) -> tuple[Sequence[torch.Tensor], int | None]:
    """Return what an operator of eager quantization multiplies, and its multiply-accumulates, ``None`` if unknown."""
    if name.startswith(("quantized.linear", "quantized.conv")):
        weight = packed.unpack()[0]
        moved = first.shape if "transpose" in name else output.shape
        macs = matrix_macs(first.shape, moved) if weight.ndim == 2 else convolution_macs(moved, weight.shape)
        return (first, weight), macs
    return (first, first), None if torch.is_tensor(first) else 0


class _Reader(Interpreter):
    """Runs a program and says which node runs."""

    def __init__(self, module: GraphModule, seen: _Multiplications) -> None:
        super().__init__(module)
        self._seen = seen

    def run_node(self, n: Any) -> Any:
        self._seen.node = n
        return super().run_node(n)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        if torch.is_tensor(value):
            self._seen.made_of_bytes[value] = value.dtype in _BYTES
        return value

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(target, HigherOrderOperator):
            # It takes functions as well, and calls each as often as it runs.
            bodies = (_Reader(each, self._seen).run if isinstance(each, GraphModule) else each for each in args)
            node, output = self._seen.node, target(*bodies, **kwargs)
            self._seen.node = node
            self._seen.count(str(target), args, output)
            return output
        with self._seen:
            return super().call_function(target, args, kwargs)


def watch_backend(seen: Counter[Sizes]) -> Callable[..., Any]:
    """Return Inductor as a backend of ``torch.compile``, which adds to `seen` what it is given to compute in integers.

    That is the graph behind all passes that put integers in the place of floats. A profile shows no more: Inductor
    writes kernels of its own, for products in integers among others, and those have no names there.
    """

    def compiled(graph: GraphModule, inputs: Sequence[Any], **settings: Any) -> Any:
        seen.update(_find_integer_sizes(graph))
        return compile_fx_inner(graph, inputs, **settings)

    return partial(compile_fx, inner_compile=compiled)


def _find_integer_sizes(graph: GraphModule) -> Iterator[Sizes]:
    """Yield the sizes of the products of bytes: oneDNN has operators for them, alone or with what follows."""
    for node in graph.graph.nodes:
        if getattr(node.target, "namespace", "") in ("onednn", "quantized"):
            values = [
                getattr(graph, each.target) if each.op == "get_attr" else each.meta.get("val")
                for each in node.all_input_nodes
            ]
            operands = [each.numel() for each in values if torch.is_tensor(each) and each.dtype in _BYTES]
            if len(operands) > 1:
                yield operands[0], operands[1], node.meta["val"].numel()


def measure_coverage(
    products: Sequence[RanProduct], in_integers: Mapping[Sizes, int], spec: EngineSpec, provider: str
) -> Coverage:
    """Return the share of products that run in the precision of `spec`, by their multiply-accumulates.

    Parameters
    ----------
    products : of the program, see `products_of`.
    in_integers : how many products of each size the compiled graph computes in integers, see `watch_backend`.
    spec : the engine. Where weights alone are held in integers and widened on the way, they count as asked for.
    provider : where it runs, for the report.
    """
    left = Counter(in_integers)
    seen: set[int] = set()
    # Of two products of one size, the one that reads a weight in integers is meant.
    for place in sorted(range(len(products)), key=lambda place: not products[place].is_held):
        if left[products[place].sizes]:
            left[products[place].sizes] -= 1
            seen.add(place)
    tallied = [
        _tally_product(product, spec, is_seen=place in seen, some_lost=left.total() > 0)
        for place, product in enumerate(products)
    ]
    return tally(tallied, provider)


def _tally_product(product: RanProduct, spec: EngineSpec, *, is_seen: bool, some_lost: bool) -> Tallied:
    is_int8 = is_seen or product.is_widened
    kind = product_kind("int8" if is_int8 else product.computed_in, spec.precision)
    # Inductor put several into one, or changed their shape.
    is_lost = some_lost and product.is_held and not is_int8
    if product.macs is None or is_lost:
        kind = Kind.OPAQUE
    beyond = "" if spec.scheme not in ("dynamic", "weight-only") or product.op in _LINEAR else product.op
    return Tallied(product.name, product.op, kind, product.macs, beyond=beyond, in_int8=is_int8)
