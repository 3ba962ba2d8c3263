"""The user's module: a copy in evaluation mode that takes and returns tensors by name, and its signature."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

import torch
from torch.nn.utils.parametrize import remove_parametrizations
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import SUPPORTED_NODES, register_dataclass, tree_flatten, tree_leaves, tree_map_only

from pytest_quant.backends.feeds import Feeds, Outputs
from pytest_quant.backends.runtime import name_errors
from pytest_quant.backends.torch import float_type
from pytest_quant.errors import ModelError, UsageError
from pytest_quant.spec import EngineSpec, Model, Shape, Signature, TensorInfo


def cast(tensors: Iterable[Any], spec: EngineSpec) -> tuple[Any, ...]:
    """Return `tensors` with floats as the engine of `spec` takes them; for ``fp32`` all stay as they are."""
    dtype = narrow_type(spec)
    return tuple(tensor.to(dtype) if dtype and tensor.is_floating_point() else tensor for tensor in tensors)


def narrow_type(spec: EngineSpec) -> Any:
    """Return torch's type of sixteen bits that an engine keeps its floats in; ``None`` for ``fp32``."""
    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(float_type(spec))


CONSTANTS = (bool, bytes, complex, float, int, str, type(None))

_CONVERT = "torch.ao.quantization.convert(module), or convert_pt2e(module) after prepare_qat_pt2e"


def module_of(model: Model) -> Any:
    """Return a copy of the module in evaluation mode, apart from the user's own.

    It takes the tensors of the example inputs one by one, in the order of `input_names`, and returns a dict of tensors,
    see `name_outputs`.

    Raises
    ------
    UsageError : the model is a file.
    ModelError : it is no ``torch.nn.Module`` with inputs, or of a kind that cannot be traced.
    """
    module, examples = copy_of(model), model.example_inputs
    if isinstance(examples, tuple) and all(isinstance(each, torch.Tensor) for each in examples):
        module.register_forward_hook(lambda _module, _inputs, outputs: name_outputs(outputs))
        return module

    def forward(*tensors: Any) -> dict[str, Any]:
        left = iter(tensors)
        given: Any = tree_map_only(torch.Tensor, lambda _: next(left), examples)
        args, kwargs = ((), given) if isinstance(given, dict) else (given, {})
        # Not the module itself, which the tracer would look for among the submodules; its hooks run here as well.
        return name_outputs(module._call_impl(*args, **kwargs))  # noqa: SLF001 - its only home

    parameters = [
        inspect.Parameter(f"tensor_{index}", inspect.Parameter.POSITIONAL_ONLY)
        for index in range(len(input_names(model)))
    ]
    vars(forward)["__signature__"] = inspect.Signature(parameters)
    flat = torch.nn.Module()
    # Submodules and weights keep their names.
    vars(flat).update({name: vars(module)[name] for name in ("_modules", "_parameters", "_buffers")}, forward=forward)
    return flat.eval()


def copy_of(model: Model) -> Any:
    """Return a copy of the user's own module in evaluation mode, out of what wraps it. Raises as `module_of` does."""
    if model.module is None:
        raise UsageError(
            f"model '{model.name}' is a file, and backend 'torch' reads modules",
            value=str(model.path),
            allowed="a torch.nn.Module with one tuple of inputs for it",
            fix="write Model.from_torch(module, (example_input,)), or backend='ort' for an ONNX file",
        )
    module = _unwrap(model.module)
    _refuse(model, module)
    with name_errors(f"model '{model.name}' cannot be copied", "make copy.deepcopy(module) work", ModelError):
        copied = _copy_plain(module)
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


def _refuse(model: Model, module: Any) -> None:
    """Raise `ModelError` for what is no module with inputs, or cannot be traced or compared as it is."""
    inputs = input_leaves(model) if isinstance(module, torch.nn.Module) and not _flaw(module) else {}
    kinds = (torch.Tensor, torch.dtype, *CONSTANTS)
    wrong = [f"{type(each).__name__} at '{name}'" for name, each in inputs.items() if not isinstance(each, kinds)]
    parts = (*module.named_modules(), *module.named_parameters(), *module.named_buffers()) if inputs else [("", module)]
    for name, each in (*parts, *inputs.items()):
        if flaw := _flaw(each):
            value = f"{getattr(each, 'dtype', type(each).__name__)} at '{name or 'the module itself'}'"
            raise ModelError(f"model '{model.name}' {flaw[0]}", value=value, fix=flaw[1])
    if wrong or not any(isinstance(each, torch.Tensor) for each in inputs.values()):
        raise ModelError(
            f"model '{model.name}' is not a torch.nn.Module with example_inputs that are a tuple of tensors",
            value=", ".join(wrong) or f"{type(module).__name__}, {type(model.example_inputs).__name__}",
            allowed="a tuple, or a dict by name, of tensors, constants, lists, tuples, dicts and dataclasses",
            fix="write Model.from_torch(module, (torch.zeros(2, 3, 224, 224),))",
        )


def _flaw(each: Any) -> tuple[str, str] | None:
    """Return what is wrong with a submodule, a weight or a buffer, and what to do; ``None`` for a sound one."""
    if isinstance(each, torch.jit.ScriptModule):
        return "is of TorchScript, which cannot be traced", "give the torch.nn.Module that it was made from"
    if "FakeQuant" in type(each).__name__:
        return "still has the fake quantizers of training", f"convert it first: {_CONVERT}"
    if not isinstance(each, torch.Tensor):
        return None
    if torch.nn.parameter.is_lazy(each):
        return "has weights without a size", "run it once: module(*example_inputs)"
    if each.is_meta:
        return "has weights without values", "module.to_empty(device='cpu'), then module.load_state_dict(weights)"
    if each.layout != torch.strided:
        return "has a sparse tensor", "put tensor.to_dense() in its place"
    # A subclass may hold integers behind such a type, and a buffer anything.
    if type(each) is torch.nn.Parameter and each.dtype in (torch.bfloat16, torch.float16):
        return "is not in float32, as a reference is", "give module.float(), and example inputs that are .float()"
    return None


def _unwrap(module: Any) -> Any:
    """Return the module inside of ``torch.compile``, ``DataParallel`` and the like; any other module as it is."""
    parallel = torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel
    # The class of compiled ones comes with a compiler that warns while it is loaded.
    while isinstance(module, parallel) or "_orig_mod" in getattr(module, "_modules", ()):
        (module,) = module.children()
    return module


def _copy_plain(module: Any) -> Any:
    """Return a copy in which weights are plain, whatever they are computed from before each run of the original."""
    # PyTorch copies no tensor that a run has left in an attribute.
    held = (each for child in module.modules() for each in tree_leaves(vars(child)) if isinstance(each, torch.Tensor))
    copied = copy.deepcopy(module, {id(each): each.detach().clone() for each in held if not each.is_leaf})
    for child in copied.modules():
        inner, hooks = vars(child)["_modules"], vars(child)["_forward_pre_hooks"]
        inner.update({name: _unwrap(each) for name, each in inner.items()})
        # Those of weight_norm, spectral_norm and prune.
        for key in [key for key, hook in hooks.items() if type(hook).__module__.startswith("torch.nn.utils.")]:
            hooks.pop(key).remove(child)
        if hasattr(child, "parametrizations"):
            # It has a class of its own, from which removing takes the property: the original has the same.
            child.__class__ = type(type(child).__name__, type(child).__bases__, dict(vars(type(child))))
        for name in list(getattr(child, "parametrizations", ())):
            remove_parametrizations(child, name)
    return copied


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what is in lists, tuples, dicts and dataclasses, one in the other, in their order, each with its path.

    ``state.h`` is the entry or field ``h`` of ``state``, ``x.0`` the first of a list ``x``.
    """
    is_record = is_dataclass(value) and not isinstance(value, type)
    if is_record and type(value) not in SUPPORTED_NODES:
        register_dataclass(type(value))
    inside, spec = tree_flatten(value, is_leaf=lambda each: each is not value)
    if spec.is_leaf():
        yield path, value
        return
    fields: Any = value.__dataclass_fields__ if is_record else getattr(value, "_fields", ())
    # Of a dataclass, fields that are None do not count.
    names = list(value) if isinstance(value, Mapping) else [each for each in fields if getattr(value, each) is not None]
    for name, each in zip(names if len(names) == len(inside) else range(len(inside)), inside, strict=True):
        yield from _leaves(each, f"{path}.{name}".removeprefix("."))


def input_leaves(model: Model) -> dict[str, Any]:
    """Return what the example inputs consist of, by the path from the forward's parameter: tensors and constants.

    An exported module takes ``*args``; its placeholders then give the names of the parameters.
    """
    examples: Any = model.example_inputs
    if not isinstance(examples, dict):
        module: Any = _unwrap(model.module)
        examples = examples if isinstance(examples, tuple) else ()
        nodes = module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ()
        names = [node.target for node in nodes if node.op == "placeholder"]
        if len(names) != len(examples):
            parameters = inspect.signature(module.forward).parameters.items()
            kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
            names = [name for name, parameter in parameters if parameter.kind in kinds]
        if len(names) < len(examples):
            names = [f"input_{index}" for index in range(len(examples))]
        examples = {str(name): each for name, each in zip(names, examples, strict=False)}
    return dict(_leaves(examples))


def example_tensors(model: Model) -> dict[str, Any]:
    """Return copies of the tensors among the example inputs, laid out as data will be; a channels-last one stays so."""
    layouts = {True: torch.channels_last, False: torch.contiguous_format}
    return {
        name: each.detach().clone(memory_format=layouts[each.is_contiguous(memory_format=torch.channels_last)])
        for name, each in input_leaves(model).items()
        if isinstance(each, torch.Tensor)
    }


def input_names(model: Model) -> tuple[str, ...]:
    """Return the names of the inputs that are tensors, in the order in which `module_of` takes them."""
    if model.signature is not None:
        return tuple(tensor.name for tensor in model.signature.inputs)
    return tuple(example_tensors(model))


def name_outputs(outputs: object) -> dict[str, Any]:
    """Return the tensors that a module returned by name, without what is ``None``.

    One tensor is ``output``, those of a tuple ``output_0`` and on, those of a dict or a dataclass have its names; what
    is inside of these has a path, ``output_1.0`` for example.

    Raises
    ------
    ModelError : something in it is not a tensor of real numbers, or nothing is in it.
    """
    if isinstance(outputs, (list, tuple)):
        outputs = {"output" if len(outputs) == 1 else f"output_{index}": each for index, each in enumerate(outputs)}
    named = {path or "output": each for path, each in _leaves(outputs) if each is not None}
    wrong = [
        f"{getattr(each, 'dtype', type(each).__name__)} at '{name}'"
        for name, each in named.items()
        if not isinstance(each, torch.Tensor) or each.is_complex() or each.layout != torch.strided
    ]
    if wrong or not named:
        raise ModelError(
            "the module returns something that is not tensors of real numbers",
            value=", ".join(wrong) or type(outputs).__name__,
            allowed="a tensor, or tuples, lists, dicts and dataclasses of tensors",
            fix="wrap it in a module that returns the tensors you compare, with view_as_real(output) or to_dense()",
        )
    return {name: each.dequantize() if each.is_quantized else each for name, each in named.items()}


def free_axes(model: Model) -> dict[str, tuple[int, ...]]:
    """Return the free axes of each input by its name."""
    if model.signature is not None:
        return {tensor.name: tensor.free_axes for tensor in model.signature.inputs}
    names = example_tensors(model)
    if isinstance(model.dynamic, bool):
        return {name: (0,) if model.dynamic and each.ndim else () for name, each in names.items()}
    dynamic = dict(model.dynamic)
    for name in sorted(dynamic.keys() - names.keys()):
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
    module = module_of(model)
    axes = free_axes(model)
    examples = tuple(example_tensors(model).values())
    longer = []
    for example, free in zip(examples, axes.values(), strict=True):
        grown = example
        for axis in free:
            grown = torch.cat([grown, grown.narrow(axis, 0, 1)], axis)
        longer.append(grown)
    first = _outputs(model, module, examples, "its example inputs")
    second = _outputs(model, module, longer, "longer inputs, though dynamic= says that they are free")
    inputs = tuple(_info(name, example, free) for (name, free), example in zip(axes.items(), examples, strict=True))
    outputs = []
    for name, tensor in first.items():
        free = tuple(axis for axis, size in enumerate(tensor.shape) if second[name].shape[axis] != size)
        outputs.append(_info(name, tensor, free))
    return Signature(inputs, tuple(outputs))


def largest_tensor(model: Model, shapes: Mapping[str, Shape]) -> int:
    """Return the bytes of the largest tensor that an operator gives in a run of the example inputs, grown to `shapes`.

    Raises
    ------
    ModelError : the module does not take its example inputs.
    """
    sizes = [0]

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            returned = func(*args, **(kwargs or {}))
            # A view takes nothing, as that of a weight.
            sizes.extend(0 if func.is_view else getattr(each, "nbytes", 0) for each in tree_leaves(returned))
            return returned

    module, watching = module_of(model), Watching()  # type: ignore[no-untyped-call]
    examples = tuple(example_tensors(model).values())

    def watched(*tensors: Any) -> Any:
        with watching:
            return module(*tensors)

    _outputs(model, watched, examples, "its example inputs")
    wanted = sum(math.prod(shape) for shape in shapes.values())
    return int(max(sizes) * wanted // max(1, sum(each.numel() for each in examples)))


def keeps_state(model: Model) -> bool:
    """Return whether its example inputs give other outputs once the module has run on others."""
    module = module_of(model)
    examples = tuple(example_tensors(model).values())
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


def open_module(model: Model) -> Callable[[Feeds], Outputs]:
    """Return what runs the module for one batch; a run that fails raises `ModelError`. Raises as `module_of` does."""
    module, names = module_of(model), input_names(model)

    def run(feeds: Feeds) -> Outputs:
        tensors = [torch.from_numpy(feeds[name]) for name in names]
        outputs = _outputs(model, module, tensors, "samples of the evaluation")
        return {name: each.numpy() for name, each in outputs.items()}

    return run


def _outputs(model: Model, module: Any, inputs: Any, what: str) -> dict[str, Any]:
    fix = "give inputs that the module accepts, a dict of those it takes by name, and dynamic=False for fixed sizes"
    with name_errors(f"model '{model.name}' does not run on {what}", fix, ModelError), torch.no_grad():
        outputs: dict[str, Any] = module(*(each.clone() for each in inputs))
    return outputs


def submodule_of(node: Any) -> str:
    """Return the path of the submodule that a node of a traced module is computed in; empty for the module itself."""
    stack = node.meta.get("nn_module_stack") or {"": ("", None)}
    path: str = next(reversed(stack.values()))[0]
    # One that is called again has a number behind its path.
    return path.partition("@")[0]


def _info(name: str, tensor: Any, free: tuple[int, ...]) -> TensorInfo:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorInfo(name, dtype, tuple(None if axis in free else size for axis, size in enumerate(tensor.shape)))
