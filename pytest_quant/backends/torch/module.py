"""The user's module: a copy in evaluation mode and one floating type, its inputs by name, its digest."""

from __future__ import annotations

import copy
import hashlib
import inspect
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_quant.backends.runtime import failing_as
from pytest_quant.backends.torch.options import float_type
from pytest_quant.errors import ModelError, UsageError
from pytest_quant.spec import EngineSpec, Model, Shape, Signature, TensorInfo


def cast(tensors: Iterable[Any], spec: EngineSpec) -> tuple[Any, ...]:
    """Return `tensors` with floats as the engine of `spec` takes them; for ``fp32`` all stay as they are."""
    dtype = _narrow(spec)
    return tuple(tensor.to(dtype) if dtype and tensor.is_floating_point() else tensor for tensor in tensors)


def cast_module(module: Any, spec: EngineSpec) -> Any:
    """Return `module` with its floating weights as the engine of `spec` keeps them."""
    dtype = _narrow(spec)
    return module.to(dtype) if dtype else module


def _narrow(spec: EngineSpec) -> Any:
    import torch

    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(float_type(spec))


_PLAIN = (bool, bytes, complex, float, int, str, type(None))


def module_of(model: Model) -> Any:
    """Return a copy of the module in evaluation mode, apart from the user's own.

    Raises
    ------
    UsageError : the model is a file.
    ModelError : it is no ``torch.nn.Module``, or its example inputs are no tuple of tensors.
    """
    import torch

    if model.module is None:
        raise UsageError(
            f"model '{model.name}' is a file, and backend 'torch' reads modules",
            value=str(model.path),
            allowed="a torch.nn.Module with one tuple of inputs for it",
            fix="write Model.from_torch(module, (example_input,))",
        )
    examples = model.example_inputs
    tensors = isinstance(examples, tuple) and examples and all(isinstance(each, torch.Tensor) for each in examples)
    if not isinstance(model.module, torch.nn.Module) or not tensors:
        raise ModelError(
            f"model '{model.name}' is not a torch.nn.Module with example_inputs that are a tuple of tensors",
            value=f"{type(model.module).__name__}, {type(examples).__name__}",
            fix="write Model.from_torch(module, (torch.zeros(2, 3, 224, 224),))",
        )
    copied = copy.deepcopy(model.module)
    reset = model.reset
    if reset is not None:
        # A hook is traced with the module; what it returned would take the place of the inputs.
        copied.register_forward_pre_hook(lambda module, _: (reset(module), None)[1])
    if isinstance(copied, torch.fx.GraphModule):
        # Here, because it takes seconds and logs warnings, and few modules are exported ones.
        from torchao.quantization.pt2e import move_exported_model_to_eval

        move_exported_model_to_eval(copied)
        return copied
    return copied.eval()


def input_names(model: Model) -> tuple[str, ...]:
    """Return the names of the forward's parameters, as many as there are example inputs.

    An exported module takes ``*args``; its placeholders then give the names.
    """
    if model.signature is not None:
        return tuple(tensor.name for tensor in model.signature.inputs)
    examples: Any = model.example_inputs
    module: Any = model.module
    placeholders = [node.target for node in module.graph.nodes if node.op == "placeholder"] if _is_graph(module) else []
    parameters = [
        name
        for name, parameter in inspect.signature(module.forward).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    names = placeholders if len(placeholders) == len(examples) else parameters
    if len(names) < len(examples):
        return tuple(f"input_{index}" for index in range(len(examples)))
    return tuple(str(name) for name in names[: len(examples)])


def named_outputs(outputs: object) -> dict[str, Any]:
    """Return the tensors that a module returned by name: ``output``, ``output_0`` and on, or the keys of a dict.

    Raises
    ------
    ModelError : something in it is not a tensor.
    """
    import torch

    if isinstance(outputs, torch.Tensor):
        return {"output": outputs}
    if isinstance(outputs, dict):
        named = {str(key): value for key, value in outputs.items()}
    elif isinstance(outputs, (list, tuple)):
        named = {"output" if len(outputs) == 1 else f"output_{index}": value for index, value in enumerate(outputs)}
    else:
        named = {}
    if not named or not all(isinstance(value, torch.Tensor) for value in named.values()):
        raise ModelError(
            "the module returns something that is not tensors",
            value=type(outputs).__name__,
            allowed="a tensor, a tuple or list of tensors, or a dict of tensors",
            fix="wrap the module in one that returns the tensors you compare",
        )
    return named


def free_axes(model: Model) -> dict[str, tuple[int, ...]]:
    """Return the free axes of each input by its name."""
    if model.signature is not None:
        return {tensor.name: tensor.free_axes for tensor in model.signature.inputs}
    names = input_names(model)
    if isinstance(model.dynamic, bool):
        return dict.fromkeys(names, (0,) if model.dynamic else ())
    dynamic = dict(model.dynamic)
    for name in dynamic:
        if name not in names:
            message = f"dynamic= names an input that '{model.name}' does not have"
            raise UsageError(message, value=repr(name), allowed=", ".join(names))
    return {name: dynamic.get(name, ()) for name in names}


def signature_of(model: Model) -> Signature:
    """Return inputs and outputs as found by running the example inputs, and once more with every free axis longer.

    Raises
    ------
    ModelError : the module does not take them.
    """
    if model.signature is not None:
        return model.signature
    import torch

    module = module_of(model)
    axes = free_axes(model)
    examples: Any = model.example_inputs
    longer = []
    for example, free in zip(examples, axes.values(), strict=True):
        grown = example
        for axis in free:
            grown = torch.cat([grown, grown.narrow(axis, 0, 1)], axis)
        longer.append(grown)
    first = _outputs(model, module, examples, "its example inputs")
    second = _outputs(model, module, longer, "longer inputs, though dynamic= says that they are free")
    inputs = tuple(_info(name, example, free) for (name, free), example in zip(axes.items(), examples, strict=True))
    outputs = [
        _info(
            name, tensor, tuple(axis for axis in range(tensor.ndim) if second[name].shape[axis] != tensor.shape[axis])
        )
        for name, tensor in first.items()
    ]
    return Signature(inputs, tuple(outputs))


def largest_tensor(model: Model, shapes: Mapping[str, Shape]) -> int:
    """Return the bytes of the largest tensor that an operator gives in a run of the example inputs, grown to `shapes`.

    Raises
    ------
    ModelError : the module does not take its example inputs.
    """
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    sizes = [0]

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            returned = func(*args, **(kwargs or {}))
            # A view takes nothing, as that of a weight.
            sizes.extend(0 if func.is_view else getattr(each, "nbytes", 0) for each in tree_leaves(returned))
            return returned

    module, examples, watching = module_of(model), model.example_inputs, Watching()  # type: ignore[no-untyped-call]
    with watching:
        _outputs(model, module, examples, "its example inputs")
    wanted = sum(math.prod(shape) for shape in shapes.values())
    return int(max(sizes) * wanted // max(1, sum(each.numel() for each in tree_leaves(examples))))


def keeps_state(model: Model) -> bool:
    """Return whether its example inputs give other outputs once the module has run on others."""
    import torch

    module = module_of(model)
    examples: Any = model.example_inputs
    others = tuple(example + 1 if example.is_floating_point() else example for example in examples)
    runs = []
    with torch.random.fork_rng(devices=[]):
        for inputs in (examples, others, examples):
            # What is drawn at random is drawn again.
            torch.default_generator.manual_seed(0)
            outputs = _outputs(model, module, inputs, "its example inputs, three times")
            runs.append([tensor.double().clone() for tensor in outputs.values()])
    return any(
        first.shape != again.shape or not torch.allclose(first, again, rtol=1e-5, atol=1e-6, equal_nan=True)
        for first, again in zip(runs[0], runs[-1], strict=True)
    )


def _outputs(model: Model, module: Any, inputs: Any, what: str) -> dict[str, Any]:
    import torch

    fix = "give Model.from_torch inputs that the module accepts, and dynamic=False where sizes are fixed"
    with failing_as(f"model '{model.name}' does not run on {what}", fix, ModelError), torch.no_grad():
        return named_outputs(module(*inputs))


def module_digest(model: Model) -> str:
    """Return SHA-256 of weights, buffers, code, plain attributes and the example inputs' shapes.

    Code is the source of every class that is not torch's own, and of a traced graph its text.
    """
    digest = hashlib.sha256()
    for part in _parts(module_of(model), model):
        digest.update(part)
        digest.update(b"\0")
    return digest.hexdigest()


def _parts(module: Any, model: Model) -> Iterator[bytes]:
    for name, tensor in module.state_dict().items():
        yield f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode()
        yield _bytes(tensor)
    for name, child in module.named_modules():
        yield f"{name} {type(child).__module__}.{type(child).__qualname__} {child.extra_repr()}".encode()
        if _is_graph(child):
            yield str(child.code).encode()
        elif not type(child).__module__.startswith(("torch.", "torchao.")):
            yield _source(type(child).__module__).encode()
        yield repr(
            sorted((key, _text(value)) for key, value in vars(child).items() if not key.startswith("_"))
        ).encode()
    examples: Any = model.example_inputs
    yield repr([(str(example.dtype), tuple(example.shape)) for example in examples]).encode()
    yield repr(free_axes(model)).encode()
    yield f"{_text(model.reset)} {_source(getattr(model.reset, '__module__', ''))}".encode()


def _text(value: object) -> str:
    """Return an attribute as text, without the address that a repr may hold."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return f"{type(value).__name__}{[_text(item) for item in value]}"
    if isinstance(value, dict):
        return repr(sorted((str(key), _text(item)) for key, item in value.items()))
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    return type(value).__qualname__


@lru_cache(maxsize=256)
def _source(module_name: str) -> str:
    """Return the text of the file that defines a class: the functions that its methods call are mostly there too."""
    try:
        file = inspect.getsourcefile(sys.modules[module_name])
        return "" if file is None else Path(file).read_text(encoding="utf-8")
    except (KeyError, OSError, TypeError):
        return ""


def _bytes(tensor: Any) -> bytes:
    import torch

    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""


def _is_graph(module: Any) -> bool:
    import torch

    return isinstance(module, torch.fx.GraphModule)


def _info(name: str, tensor: Any, free: tuple[int, ...]) -> TensorInfo:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorInfo(name, dtype, tuple(None if axis in free else size for axis, size in enumerate(tensor.shape)))
