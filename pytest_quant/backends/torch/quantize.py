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
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from pytest_quant.backends.offer import Remedy, change_scheme, set_option
from pytest_quant.backends.torch import parse_options, torch_quiet
from pytest_quant.backends.torch.module import copy_of
from pytest_quant.environment.machine import adds_in_16_bits, onednn_tier
from pytest_quant.spec import ARRIVING, EngineSpec


def prepare_qat(module: Any, example_inputs: tuple[Any, ...], *, reduce_range: bool = False) -> Any:
    """Return a copy of `module` that rounds to int8 in its forward pass, ready to be trained.

    Parameters
    ----------
    module : a ``torch.nn.Module``; it is left as it was.
    example_inputs : tensors with a leading batch axis of at least 2, which stays free.
    reduce_range : train for 7-bit activations, for CPUs without VNNI.
    """
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

        trained = copy.deepcopy(prepared)
        move_exported_model_to_eval(trained)
    return convert_graph(trained)


def convert_graph(prepared: Any) -> Any:
    """Return a graph with Q/DQ pairs in place of its observers, in evaluation mode; `prepared` itself is used up."""
    with torch_quiet():
        from torchao.quantization.pt2e import move_exported_model_to_eval
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

        quantized = convert_pt2e(prepared)
        move_exported_model_to_eval(quantized)
    return quantized


def hold_weights(spec: EngineSpec, module: Any) -> Any:
    """Turn the weights of the linear layers of `module` into int8 by torchao, and return it."""
    with torch_quiet():
        from torchao.quantization import Int8WeightOnlyConfig, quantize_

        quantize_(
            module,
            Int8WeightOnlyConfig(),
            filter_fn=lambda layer, name: isinstance(layer, torch.nn.Linear) and name not in spec.exclude,
        )
        return unpack_weights(module)


def quantized_nodes(spec: EngineSpec) -> tuple[str, ...]:
    """Return the names of the submodules that the scheme of `spec` takes, and `spec` does not exclude."""
    module = spec.model.module
    if not isinstance(module, torch.nn.Module) or spec.scheme not in ("static", "dynamic", "weight-only"):
        return ()
    # The quantizer goes by the class, and convolves in two dimensions.
    kinds = (torch.nn.Linear, torch.nn.Conv2d)[: 2 if spec.scheme == "static" else 1]
    names = (name for name, child in copy_of(spec.model).named_modules() if type(child) in kinds)
    return tuple(name for name in names if name and name not in spec.exclude)


def remedies(spec: EngineSpec, schemes: Sequence[str | None]) -> Iterator[Remedy]:
    """Yield the other ways to quantize `spec`; `schemes` are those of the backend for its precision."""
    options = parse_options(spec.options)
    if spec.scheme in ("static", "dynamic"):
        others = [each for each in ("static", "dynamic", "weight-only") if each in schemes and each != spec.scheme]
        changed = (change_scheme(spec, each) for each in others)
        yield from (each for each in changed if quantized_nodes(each.spec))
        has_seven = options.seven_bits(spec.cpus)
        if has_seven or adds_in_16_bits(onednn_tier(), spec.cpus):
            yield from set_option(spec, "reduce_range", not has_seven)
    # Where this repairs it, the kernels are at fault and not the levels.
    if spec.scheme in ("static", "dynamic", *ARRIVING):
        yield from set_option(spec, "compiled", False)


def unpack_weights(module: Any) -> Any:
    """Split the weights of `module` that torchao packed into plain tensors, and return it.

    A packed one could be written to a file by pickle only.
    """
    from torchao.utils import unwrap_tensor_subclass

    # It looks at the layers inside only, and the module may be a layer itself.
    unwrap_tensor_subclass(torch.nn.Sequential(module))
    return module


def is_packed(module: Any) -> bool:
    """Tell whether `module` was quantized in eager mode: operators take its weights as objects of their own."""
    kinds = {type(child).__module__ for child in module.modules()}
    eager = ("torch.ao.nn.quantized.", "torch.ao.nn.intrinsic.quantized.")
    return any(kind.startswith(eager) and ".reference." not in kind for kind in kinds)


_ROUNDING_CALLS = ("quantize", "onednn.q", "quantized.")
"""Parts of the names of functions that round, or multiply what was rounded."""


def quantizing_parts(module: Any) -> tuple[str, ...]:
    """Return what only a quantized `module` has, each by its kind and name; empty for a float one.

    These are layers of ``torch.ao.nn.quantized`` and of torchao, layers that round in training, tensors that keep
    integers behind a float type, and nodes of a graph that round. Observers, which only watch, are none.
    """
    if not isinstance(module, torch.nn.Module):
        return ()
    parts = [f"{kind} '{name}'" for kind, name in find_quantized_layers(module)]
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_quantized or type(tensor).__module__.startswith("torchao."):
            parts.append(f"{type(tensor).__name__} '{name}'")
    for child in module.modules():
        nodes = child.graph.nodes if isinstance(child, torch.fx.GraphModule) else ()
        called = ((node, str(node.target)) for node in nodes if node.op == "call_function")
        parts += [f"{call} '{node.name}'" for node, call in called if any(part in call for part in _ROUNDING_CALLS)]
    return tuple(parts)


def find_quantized_layers(module: Any) -> Iterator[tuple[str, str]]:
    """Yield kind and name of layers of ``torch.ao.nn.quantized`` and torchao, and of those that round in training."""
    for name, child in module.named_modules():
        kind, home = type(child).__name__, type(child).__module__
        if not home.startswith(("torch.ao.", "torchao.")) or "Observer" in kind or "PackedParams" in kind:
            continue
        if "quantized" in home.split(".") or "FakeQuant" in kind or home.startswith("torchao."):
            yield f"{home}.{kind}", name
