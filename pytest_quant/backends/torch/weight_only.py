"""Weights of linear layers kept in int8, one scale for each output channel; activations stay in float."""

from __future__ import annotations

from typing import Any

from pytest_quant.backends.tally import Kind, Tallied, tally
from pytest_quant.backends.torch.quiet import quiet
from pytest_quant.errors import BuildError
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec

_PRODUCTS = (
    "aten.linear",
    "aten.mm",
    "aten.addmm",
    "aten.bmm",
    "aten.matmul",
    "aten.conv",
    "aten.lstm",
    "aten.gru",
    "aten.rnn",
)
_LINEAR = ("aten.linear", "aten.mm", "aten.addmm")
"""Those of linear layers, which are all that this scheme takes."""

_INTEGERS = ("torch.int8", "torch.uint8", "torch.int4")


def hold_weights(spec: EngineSpec, module: Any) -> Any:
    """Turn the weights of the linear layers of `module` into int8 by torchao, and return it.

    Raises
    ------
    BuildError : it has no linear layer.
    """
    import torch

    layers = {name for name, child in module.named_modules() if isinstance(child, torch.nn.Linear)}
    if not layers:
        raise BuildError(
            f"'{spec.model.name}' has no weights that torchao keeps in int8",
            value="no torch.nn.Linear",
            fix="use scheme='static', or another backend: backend='ort'",
        )
    chosen = layers.difference(spec.exclude)
    with quiet():
        from torchao.quantization import Int8WeightOnlyConfig, quantize_
        from torchao.utils import unwrap_tensor_subclass

        quantize_(module, Int8WeightOnlyConfig(), filter_fn=lambda _, name: name in chosen)
        return unwrap_tensor_subclass(module)


def measure_held(program: Any, provider: str) -> Coverage:
    """Return the share of products, by count, whose weights the exported `program` keeps in integers.

    What runs is a float product of weights that are widened on the way, so a profile cannot tell it from any other.
    """
    inputs = set(program.graph_signature.user_inputs)
    found = []
    for node in program.graph.nodes:
        if _is_product(node):
            held = any(_comes_from_integers(one, inputs) for one in node.all_input_nodes)
            name = str(node.target).removesuffix(".default")
            beyond = "" if held or name in _LINEAR else name
            found.append(Tallied(node.name, name, Kind.ASKED if held else Kind.OTHER, beyond=beyond))
    return tally(found, provider)


def _is_product(node: Any) -> bool:
    return node.op == "call_function" and str(node.target).startswith(_PRODUCTS)


def _comes_from_integers(node: Any, inputs: set[str]) -> bool:
    """Tell whether `node` is made of a weight in integers, before any other product."""
    waiting, seen = [node], {node}
    while waiting:
        one = waiting.pop()
        if one.op == "placeholder" and one.name not in inputs and str(one.meta["val"].dtype) in _INTEGERS:
            return True
        if not _is_product(one):
            waiting += [before for before in one.all_input_nodes if before not in seen]
            seen.update(waiting)
    return False
