"""A module as a program on disk: its ingredients, which make the cache key, and how it is quantized and written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from pytest_quant.backends.feeds import Feeds, fitting_batches
from pytest_quant.backends.offer import calibration_ingredients, check_excluded
from pytest_quant.backends.runtime import failed, failing_as, failing_with
from pytest_quant.backends.torch.digest import module_digest
from pytest_quant.backends.torch.module import (
    cast,
    cast_module,
    example_tensors,
    free_axes,
    input_names,
    module_of,
    named_outputs,
    signature_of,
)
from pytest_quant.backends.torch.options import float_type, parse_options, torch_quiet
from pytest_quant.backends.torch.quantize import converted, hold_weights, is_packed, with_plain_weights
from pytest_quant.environment.machine import onednn_tier, usable_cores, version
from pytest_quant.errors import QuantError
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
    prepared = _prepared(spec, is_dynamic=False)
    torch.set_num_threads(usable_cores())
    for feeds in fitting_batches(batches(), signature, spec.model.name):
        with torch.no_grad(), failing_as(f"observing '{spec.model.name}' on a calibration batch failed"):
            prepared(*(torch.from_numpy(feeds[name]) for name in names))
    _save(spec, _guarded(spec, partial(converted, prepared)), folder)


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
        prepared = _prepared(spec, is_dynamic=True)
        with torch.no_grad(), failing_as(f"observing '{spec.model.name}' on its example inputs failed"):
            # The ranges of weights are observed too: converted without a run, they would all be one level wide.
            prepared(*cast(example_tensors(spec.model).values(), spec))
        _save(spec, _guarded(spec, partial(converted, prepared)), folder)
    elif spec.quantized is not None and is_packed(spec.quantized.module):
        module, examples = module_of(spec.quantized), tuple(example_tensors(spec.quantized).values())
        with torch_quiet(), failing_as(f"tracing '{spec.quantized.name}' failed"):
            script: Any = torch.jit.trace(module, examples, strict=False, check_trace=False)
            script.save(folder / SCRIPT_FILE)
    elif spec.quantized is not None:
        _save(spec, with_plain_weights(module_of(spec.quantized)), folder)
    else:
        module = cast_module(module_of(spec.model), spec)
        _check_excluded(spec, module)
        if spec.scheme == "weight-only":
            module = _guarded(spec, partial(hold_weights, spec, module))
        _save(spec, module, folder)


def traced(model: Model, module: Any, examples: tuple[Any, ...]) -> Any:
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
        with failing_as(f"torch.export cannot trace '{model.name}'", _TRACE_FIX):
            program = export(torch.export.Dim.AUTO)
        shapes = {node.name: node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder"}
        found = [shapes[name] for name in program.graph_signature.user_inputs]
        left = {
            name: tuple(axis for axis in free if not is_concrete_int(shape[axis]))
            for (name, free), shape in zip(axes.items(), found, strict=True)
        }
        fixed = [f"axis {axis} of '{name}'" for name, free in axes.items() for axis in {*free} - {*left[name]}]
        return failed(
            f"'{model.name}' runs at the size of its example inputs only, though dynamic= says that it is free",
            error,
            value=" and ".join(fixed),
            fix=f"write Model.from_torch(..., dynamic={left if any(left.values()) else False})",
        )

    with failing_with(refused):
        return export(torch.export.Dim.DYNAMIC)


def _prepared(spec: EngineSpec, *, is_dynamic: bool) -> Any:
    """Return the traced module with observers in it."""
    module = module_of(spec.model)
    graph = traced(spec.model, module, tuple(example_tensors(spec.model).values())).module()
    _check_excluded(spec, module)
    with torch_quiet():
        import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
        from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

        quantizer = x86.X86InductorQuantizer()
        seven_bits = parse_options(spec.options).seven_bits
        config = x86.get_default_x86_inductor_quantization_config(is_dynamic=is_dynamic, reduce_range=seven_bits)
        quantizer.set_global(config)
        for name in spec.exclude:
            quantizer.set_module_name_qconfig(name, None)
        return _guarded(spec, lambda: prepare_pt2e(graph, quantizer))


def _check_excluded(spec: EngineSpec, module: Any) -> None:
    check_excluded(spec, dict(module.named_modules()).keys() - {""}, "submodule")


def _save(spec: EngineSpec, module: Any, folder: Path) -> None:
    model = spec.quantized or spec.model
    examples = cast(example_tensors(model).values(), spec)
    with torch.no_grad(), failing_as(f"running '{model.name}' as {spec.id} on its example inputs failed"):
        named_outputs(module(*examples))
    if isinstance(module, torch.fx.GraphModule):
        _drop_unread(module)
    program = traced(model, module, examples)
    with torch_quiet(), failing_as(f"writing the program of '{model.name}' failed"):
        torch.export.save(program, folder / PROGRAM_FILE)


def _drop_unread(module: Any) -> None:
    """Take tensors away that no node reads: torchao leaves the float weights beside the int8 ones made of them."""
    read = tuple(f"{node.target}." for node in module.graph.nodes if node.op in ("get_attr", "call_module"))
    for name in module.state_dict():
        if not f"{name}.".startswith(read):
            holder, _, last = name.rpartition(".")
            delattr(module.get_submodule(holder), last)


def _guarded(spec: EngineSpec, step: Callable[[], Any]) -> Any:
    """Turn whatever torchao raises into a `BuildError` with its cause."""
    fix = "leave the layer in float with exclude=['its.name'], or export to another backend: backend='ort'"
    with failing_as(f"torchao refused to quantize '{spec.model.name}' to {spec.id}", fix):
        return step()


_REBUILD = "pytest-quant cache clear --kind engine, and the next run writes it again"


def load_module(file: Path) -> Any:
    """Return what `write_engine` wrote as a module. Raises as `load_program` does."""
    if file.name == PROGRAM_FILE:
        return load_program(file).module()
    with torch_quiet(), failing_as(f"loading the script {file.name} failed", _REBUILD):
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

        with failing_as(f"loading the program {file.name} failed", _REBUILD):
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
        "reduce_range": str(parse_options(spec.options).seven_bits),
        "exclude": json.dumps(sorted(spec.exclude)),
    }
