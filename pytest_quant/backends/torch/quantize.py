"""Quantized modules without calibration: quantization-aware training (QAT), and weights of linear layers in int8.

Write::

    prepared = prepare_qat(network, (images[:32],))
    train(prepared)                                   # the user's loop, as it is
    converted = convert_qat(prepared)

and judge ``Model.from_torch(converted, (images[:32],))`` as ``quantized=``: as it is in PyTorch, and exported to ONNX
with Q/DQ pairs in the other runtimes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from pytest_quant.backends.readback import Kind, Tallied, tally
from pytest_quant.backends.torch.options import torch_quiet
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec


def prepare_qat(module: Any, example_inputs: tuple[Any, ...], *, reduce_range: bool = False) -> Any:
    """Return a copy of `module` that rounds to int8 in its forward pass, ready to be trained.

    Parameters
    ----------
    module : a ``torch.nn.Module``; it is left as it was.
    example_inputs : tensors with a leading batch axis of at least 2, which stays free.
    reduce_range : train for 7-bit activations, for CPUs without VNNI.
    """
    import torch

    with torch_quiet():
        import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
        from torchao.quantization.pt2e import allow_exported_model_train_eval, move_exported_model_to_train
        from torchao.quantization.pt2e.quantize_pt2e import prepare_qat_pt2e

        shapes = tuple({0: torch.export.Dim.DYNAMIC} for _ in example_inputs)
        # Guards look at the gradient of an example that has none, and would raise in the user's training loop.
        graph = torch.export.export(copy.deepcopy(module).train(), example_inputs, dynamic_shapes=shapes).module(
            check_guards=False
        )
        quantizer = x86.X86InductorQuantizer()
        quantizer.set_global(x86.get_default_x86_inductor_quantization_config(is_qat=True, reduce_range=reduce_range))
        prepared = prepare_qat_pt2e(graph, quantizer)
        move_exported_model_to_train(prepared)
        allow_exported_model_train_eval(prepared)
    return prepared


def convert_qat(prepared: Any) -> Any:
    """Return the trained module with Q/DQ pairs in place of the rounding, in evaluation mode; judge this one."""
    with torch_quiet():
        from torchao.quantization.pt2e import move_exported_model_to_eval
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

        trained = copy.deepcopy(prepared)
        move_exported_model_to_eval(trained)
        converted = convert_pt2e(trained)
        move_exported_model_to_eval(converted)
    return converted


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
    """Turn the weights of the linear layers of `module` into int8 by torchao, and return it."""
    import torch

    with torch_quiet():
        from torchao.quantization import Int8WeightOnlyConfig, quantize_

        quantize_(
            module,
            Int8WeightOnlyConfig(),
            filter_fn=lambda layer, name: isinstance(layer, torch.nn.Linear) and name not in spec.exclude,
        )
        return with_plain_weights(module)


def with_plain_weights(module: Any) -> Any:
    """Split the weights of `module` that torchao packed into plain tensors, and return it.

    A packed one could be written to a file by pickle only.
    """
    import torch
    from torchao.utils import unwrap_tensor_subclass

    # It looks at the layers inside only, and the module may be a layer itself.
    unwrap_tensor_subclass(torch.nn.Sequential(module))
    return module


def measure_held(program: Any, provider: str) -> Coverage:
    """Return the share of products, by count, whose weights the exported `program` keeps in integers.

    What runs is a float product of weights that are widened on the way, so in a profile it looks like any other.
    """
    inputs = set(program.graph_signature.user_inputs)
    tensors = []
    for node in program.graph.nodes:
        if _is_product(node):
            held = any(_comes_from_integers(operand, inputs) for operand in node.all_input_nodes)
            name = str(node.target).removesuffix(".default")
            beyond = "" if held or name in _LINEAR else name
            tensors.append(Tallied(node.name, name, Kind.ASKED if held else Kind.OTHER, beyond=beyond))
    return tally(tensors, provider)


def modules_in_integers(program: Any) -> set[str]:
    """Return the paths of the submodules in which the exported `program` multiplies by weights in integers."""
    inputs = set(program.graph_signature.user_inputs)
    modules = set()
    for node in program.graph.nodes:
        if _is_product(node) and any(_comes_from_integers(operand, inputs) for operand in node.all_input_nodes):
            # A submodule that is called again has a number behind its path.
            modules |= {path.partition("@")[0] for path, _ in (node.meta.get("nn_module_stack") or {}).values()}
    return modules


def _is_product(node: Any) -> bool:
    return node.op == "call_function" and str(node.target).startswith(_PRODUCTS)


def _comes_from_integers(node: Any, inputs: set[str]) -> bool:
    """Tell whether `node` is made of a weight in integers, before any other product."""
    waiting, seen = [node], {node}
    while waiting:
        current = waiting.pop()
        if current.op == "placeholder" and current.name not in inputs and str(current.meta["val"].dtype) in _INTEGERS:
            return True
        if not _is_product(current):
            waiting += [before for before in current.all_input_nodes if before not in seen]
            seen.update(waiting)
    return False


_ROUNDING_CALLS = ("quantize", "onednn.q", "quantized.")
"""Parts of the names of functions that round, or multiply what was rounded."""


def quantizing_parts(module: Any) -> tuple[str, ...]:
    """Return what only a quantized `module` has, each by its kind and name; empty for a float one.

    These are layers of ``torch.ao.nn.quantized`` and of torchao, layers that round in training, tensors that keep
    integers behind a float type, and nodes of a graph that round. Observers, which only watch, are none.
    """
    import torch

    if not isinstance(module, torch.nn.Module):
        return ()
    parts = list(_quantized_layers(module))
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_quantized or type(tensor).__module__.startswith("torchao."):
            parts.append(f"{type(tensor).__name__} '{name}'")
    for child in module.modules():
        nodes = child.graph.nodes if isinstance(child, torch.fx.GraphModule) else ()
        called = ((node, str(node.target)) for node in nodes if node.op == "call_function")
        parts += [f"{call} '{node.name}'" for node, call in called if any(part in call for part in _ROUNDING_CALLS)]
    return tuple(parts)


def _quantized_layers(module: Any) -> Iterator[str]:
    for name, child in module.named_modules():
        kind, home = type(child).__name__, type(child).__module__
        if not home.startswith(("torch.ao.", "torchao.")) or "Observer" in kind or "PackedParams" in kind:
            continue
        if "quantized" in home.split(".") or "FakeQuant" in kind or home.startswith("torchao."):
            yield f"{home}.{kind} '{name}'"
