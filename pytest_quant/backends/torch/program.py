"""A module as a program on disk: its ingredients, which make the cache key, and how it is quantized and written."""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch

from pytest_quant.backends.feeds import Feeds, check_batches
from pytest_quant.backends.offer import calibration_ingredients, check_excluded
from pytest_quant.backends.runtime import name_errors, replace_errors, wrap_error
from pytest_quant.backends.torch import float_type, parse_options, torch_quiet
from pytest_quant.backends.torch.module import (
    CONSTANTS,
    cast,
    copy_of,
    example_tensors,
    free_axes,
    input_leaves,
    input_names,
    module_of,
    name_outputs,
    narrow_type,
    signature_of,
)
from pytest_quant.backends.torch.quantize import convert_graph, hold_weights, is_packed, unpack_weights
from pytest_quant.environment.machine import onednn_tier, usable_cores, version
from pytest_quant.errors import ModelError, QuantError
from pytest_quant.spec import EngineSpec, Model

PROGRAM_FILE = "program.pt2"
SCRIPT_FILE = "program.ts"
"""In its place, of a module with packed weights: PyTorch has kernels for it and exports none."""

_TRACE_FIX = "make torch.export.export(module, example_inputs) work; to branch on values, use torch.cond in forward()"


def write_observed(spec: EngineSpec, batches: Callable[[], Iterator[Feeds]], folder: Path) -> None:
    """Observe the ranges of activations over `batches` and write the converted program into `folder`.

    Parameters
    ----------
    spec : the engine, whose scheme is ``static``.
    batches : returns the calibration batches; it is called once.
    folder : gets `PROGRAM_FILE`.

    Raises
    ------
    DataError : there is no batch, or a batch does not fit the model.
    UsageError : `exclude` names a submodule that is not there.
    BuildError : PyTorch cannot trace or convert the module.
    """
    signature = signature_of(spec.model)
    names = input_names(spec.model)
    prepared = prepare(spec, is_dynamic=False)
    torch.set_num_threads(usable_cores())
    for feeds in check_batches(batches(), signature, spec.model.name):
        with torch.no_grad(), name_errors(f"observing '{spec.model.name}' on a calibration batch failed"):
            prepared(*(torch.from_numpy(feeds[name]) for name in names))
    _save(spec, _translate_errors(spec, partial(convert_graph, prepared)), folder)


def write_engine(spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
    """Write the program of `spec` into `folder`.

    Parameters
    ----------
    spec : the engine; without `calibration` its own scheme decides whether the module is quantized here.
    calibration : a folder that `write_observed` filled, whose program is copied; ``None`` for other schemes.
    folder : gets `PROGRAM_FILE`.

    Raises
    ------
    UsageError : the model is a file, or `exclude` names a submodule that is not there.
    ModelError : the module or its example inputs are not of PyTorch, or it returns something that is not tensors.
    BuildError : PyTorch cannot run, quantize, trace or write the module.
    """
    if calibration is not None:
        shutil.copyfile(calibration / PROGRAM_FILE, folder / PROGRAM_FILE)
    elif spec.scheme == "dynamic":
        prepared = prepare(spec, is_dynamic=True)
        with torch.no_grad(), name_errors(f"observing '{spec.model.name}' on its example inputs failed"):
            # The ranges of weights are observed too: converted without a run, they would all be one level wide.
            prepared(*cast(example_tensors(spec.model).values(), spec))
        _save(spec, _translate_errors(spec, partial(convert_graph, prepared)), folder)
    elif spec.quantized is not None and is_packed(spec.quantized.module):
        module, examples = module_of(spec.quantized), tuple(example_tensors(spec.quantized).values())
        with torch_quiet(), name_errors(f"tracing '{spec.quantized.name}' failed"):
            script: Any = torch.jit.trace(module, examples, strict=False, check_trace=False)
            script.save(folder / SCRIPT_FILE)
    elif spec.quantized is not None:
        _save(spec, unpack_weights(module_of(spec.quantized)), folder)
    else:
        module = module_of(spec.model).to(narrow_type(spec))
        _check_excluded(spec, module)
        if spec.scheme == "weight-only":
            module = _translate_errors(spec, partial(hold_weights, spec, module))
        _save(spec, module, folder)


def trace_module(model: Model, module: Any, examples: tuple[Any, ...]) -> Any:
    """Trace `module` on `examples` with the free axes of `model`.

    An axis of size 1 is taken for fixed by the tracer, so a single example sample is doubled.

    Parameters
    ----------
    model : the user's model, which has the names and the free axes of the inputs.
    module : the ``torch.nn.Module`` to trace: that of `model`, or one made from it.
    examples : a tensor for each input, in the module's order and in the type that the module takes.

    Returns
    -------
    A ``torch.export.ExportedProgram``.

    Raises
    ------
    UsageError : the model names a free axis of an input that it does not have.
    BuildError : PyTorch cannot trace the module.
    """
    from torch.fx.experimental.symbolic_shapes import is_concrete_int

    axes = free_axes(model)
    if all(0 in free for free in axes.values()) and any(example.shape[0] < 2 for example in examples):
        examples = tuple(torch.cat([tensor, tensor]) for tensor in examples)

    def export(free: Any) -> Any:
        shapes = tuple(dict.fromkeys(each, free) for each in axes.values())
        with torch_quiet(), torch.no_grad():
            return torch.export.export(module, examples, dynamic_shapes=shapes)

    def refused(error: Exception) -> QuantError:
        # Where this works, it gives axes the size that the module needs.
        with name_errors(f"torch.export cannot trace '{model.name}'", _TRACE_FIX):
            program = export(torch.export.Dim.AUTO)
        shapes = {node.name: node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder"}
        found = [shapes[name] for name in program.graph_signature.user_inputs]
        left = {
            name: tuple(axis for axis in free if not is_concrete_int(shape[axis]))
            for (name, free), shape in zip(axes.items(), found, strict=True)
        }
        fixed = [f"axis {axis} of '{name}'" for name, free in axes.items() for axis in {*free} - {*left[name]}]
        return wrap_error(
            f"'{model.name}' runs at the size of its example inputs only, though dynamic= says that it is free",
            error,
            value=" and ".join(fixed),
            fix=f"write Model.from_torch(..., dynamic={left if any(left.values()) else False})",
        )

    with replace_errors(refused):
        return export(torch.export.Dim.DYNAMIC)


def prepare(spec: EngineSpec, *, is_dynamic: bool) -> Any:
    """Return the traced module with observers in it."""
    module = module_of(spec.model)
    graph = trace_module(spec.model, module, tuple(example_tensors(spec.model).values())).module()
    _check_excluded(spec, module)
    with torch_quiet():
        import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
        from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

        quantizer = x86.X86InductorQuantizer()
        seven_bits = parse_options(spec.options).seven_bits(spec.cpus)
        config = x86.get_default_x86_inductor_quantization_config(is_dynamic=is_dynamic, reduce_range=seven_bits)
        quantizer.set_global(config)
        for name in spec.exclude:
            quantizer.set_module_name_qconfig(name, None)
        return _translate_errors(spec, lambda: prepare_pt2e(graph, quantizer))


def _check_excluded(spec: EngineSpec, module: Any) -> None:
    check_excluded(spec, dict(module.named_modules()).keys() - {""}, "submodule")


def _save(spec: EngineSpec, module: Any, folder: Path) -> None:
    model = spec.quantized or spec.model
    examples = cast(example_tensors(model).values(), spec)
    with torch.no_grad(), name_errors(f"running '{model.name}' as {spec.id} on its example inputs failed"):
        name_outputs(module(*examples))
    if isinstance(module, torch.fx.GraphModule):
        _drop_unread(module)
    program = trace_module(model, module, examples)
    with torch_quiet(), name_errors(f"writing the program of '{model.name}' failed"):
        torch.export.save(program, folder / PROGRAM_FILE)


def _drop_unread(module: Any) -> None:
    """Take tensors away that no node reads: torchao leaves the float weights beside their int8 weights."""
    read = tuple(f"{node.target}." for node in module.graph.nodes if node.op in ("get_attr", "call_module"))
    for name in module.state_dict():
        if not f"{name}.".startswith(read):
            holder, _, last = name.rpartition(".")
            delattr(module.get_submodule(holder), last)


def _translate_errors(spec: EngineSpec, step: Callable[[], Any]) -> Any:
    """Turn whatever torchao raises into a `BuildError` with its cause."""
    fix = "leave the layer in float with exclude=['its.name'], or export to another backend: backend='ort'"
    with name_errors(f"torchao refused to quantize '{spec.model.name}' to {spec.id}", fix):
        return step()


_REBUILD = "pytest-quant cache clear --kind engine, and the next run writes it again"


def load_module(file: Path) -> Any:
    """Return what `write_engine` wrote as a module. Raises as `load_program` does."""
    if file.name == PROGRAM_FILE:
        return load_program(file).module()
    with torch_quiet(), name_errors(f"loading the script {file.name} failed", _REBUILD):
        return torch.jit.load(file)


def load_program(file: Path) -> Any:
    """Return the ``torch.export.ExportedProgram`` in `file`, which lies in a cache that is trusted as code is.

    PyTorch unpickles parts of it, and so runs what they say.

    Raises
    ------
    BuildError : PyTorch cannot read it.
    """
    with torch_quiet():
        # Programs name operators that only this import registers.
        import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401

        with name_errors(f"loading the program {file.name} failed", _REBUILD):
            return torch.export.load(file)


RECIPE_VERSION = "3"
"""Raised when the same ingredients would be built into something else."""


def engine_ingredients(spec: EngineSpec) -> dict[str, str]:
    """Return everything but the data that decides the engine and what it computes. Raises `ModelError`."""
    options = parse_options(spec.options)
    ours = {
        **_common(spec),
        "precision": spec.precision,
        "scheme": str(spec.scheme),
        "instruction set": onednn_tier(),
        "threads": str(options.threads),
        "compiled": str(options.compiled),
        "floating type": float_type(spec),
    }
    if options.tf32:
        ours["TF32"] = "allowed"
    if spec.quantized is not None:
        return ours | {"quantized model": module_digest(spec.quantized)}
    return ours | _quantizer(spec) if spec.scheme else ours


def observing_ingredients(spec: EngineSpec) -> dict[str, str]:
    """Return everything but the data that decides the converted program. Raises `ModelError`."""
    return {**_common(spec), **_quantizer(spec), **calibration_ingredients(spec)}


def _common(spec: EngineSpec) -> dict[str, str]:
    return {"model": module_digest(spec.model), "torch": version("torch"), "recipe": RECIPE_VERSION}


def _quantizer(spec: EngineSpec) -> dict[str, str]:
    return {
        "torchao": version("torchao"),
        "reduce_range": str(parse_options(spec.options).seven_bits(spec.cpus)),
        "exclude": json.dumps(sorted(spec.exclude)),
    }


_STATE_FIX = "make torch.save(module.state_dict(), file) work"


class _Digest(io.BytesIO):
    """A file that keeps the digest of what is written into it, and no more."""

    def __init__(self) -> None:
        super().__init__()
        self.sha256 = hashlib.sha256()

    def write(self, data: Any) -> int:
        self.sha256.update(data)
        return len(data)


def module_digest(model: Model) -> str:
    """Return SHA-256 of weights, buffers, code, plain attributes and the example inputs' shapes.

    Code is the source of every class that is not torch's own, and of a traced graph its text.
    """
    module, digest = copy_of(model), _Digest()
    with torch_quiet(), name_errors(f"the state of '{model.name}' cannot be written", _STATE_FIX, ModelError):
        # As bytes it has whatever weights are packed in, and what get_extra_state() returned.
        torch.save(module.state_dict(), digest)
    for part in _parts(module, model):
        digest.write(part + b"\0")
    return digest.sha256.hexdigest()


def _parts(module: Any, model: Model) -> Iterator[bytes]:
    for name, child in module.named_modules():
        yield f"{name} {type(child).__module__}.{type(child).__qualname__} {child.extra_repr()}".encode()
        if isinstance(child, torch.fx.GraphModule):
            yield str(child.code).encode()
        elif not type(child).__module__.startswith(("torch.", "torchao.")):
            yield _source(type(child).__module__).encode()
        attributes = sorted((key, _text(value)) for key, value in vars(child).items() if not key.startswith("_"))
        yield repr(attributes).encode()
    for name, each in input_leaves(model).items():
        yield f"{name} {getattr(each, 'dtype', repr(each))} {tuple(getattr(each, 'shape', ()))}".encode()
    yield repr(free_axes(model)).encode()
    yield f"{_text(model.reset)} {_source(getattr(model.reset, '__module__', ''))}".encode()


def _text(value: object) -> str:
    """Return an attribute as text, without the address that a repr may hold."""
    if isinstance(value, CONSTANTS):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}{[_text(item) for item in value]}"
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}{sorted(map(_text, value))}"
    if isinstance(value, dict):
        return repr(sorted((str(key), _text(item)) for key, item in value.items()))
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    # Of others, those fields count that are sure not to lead back to it.
    held = [(key, item) for key, item in getattr(value, "__dict__", {}).items() if isinstance(item, CONSTANTS)]
    return f"{type(value).__qualname__}{sorted(held)}"


@lru_cache(maxsize=256)
def _source(module_name: str) -> str:
    """Return the text of the file that defines a class: the functions that its methods call are mostly there too."""
    try:
        file = inspect.getsourcefile(sys.modules[module_name])
        return "" if file is None else Path(file).read_text(encoding="utf-8")
    except (KeyError, OSError, TypeError):
        return ""
