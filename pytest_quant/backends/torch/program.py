"""A module as a program on disk: its ingredients, which make the cache key, and how it is quantized and written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pytest_quant.backends.feeds import Feeds, fitting_batches
from pytest_quant.backends.offer import calibration_ingredients
from pytest_quant.backends.runtime import failing_as
from pytest_quant.backends.torch.module import (
    cast,
    cast_module,
    free_axes,
    input_names,
    module_digest,
    module_of,
    named_outputs,
    signature_of,
)
from pytest_quant.backends.torch.options import float_type, parse_options, torch_quiet
from pytest_quant.backends.torch.quantize import hold_weights, with_plain_weights
from pytest_quant.environment.machine import onednn_tier, usable_cores, version
from pytest_quant.errors import UsageError, nearest
from pytest_quant.spec import EngineSpec, Model

PROGRAM_FILE = "program.pt2"


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
    import torch

    signature = signature_of(spec.model)
    names = input_names(spec.model)
    prepared = _prepared(spec, is_dynamic=False)
    torch.set_num_threads(usable_cores())
    for feeds in fitting_batches(batches(), signature, spec.model.name):
        with torch.no_grad(), failing_as(f"observing '{spec.model.name}' on a calibration batch failed"):
            prepared(*(torch.from_numpy(feeds[name]) for name in names))
    _save(spec, _converted(spec, prepared), folder)


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
    import torch

    if calibration is not None:
        shutil.copyfile(calibration / PROGRAM_FILE, folder / PROGRAM_FILE)
    elif spec.scheme == "dynamic":
        prepared = _prepared(spec, is_dynamic=True)
        with torch.no_grad(), failing_as(f"observing '{spec.model.name}' on its example inputs failed"):
            # The ranges of weights are observed too: converted without a run, they would all be one level wide.
            prepared(*cast(_examples(spec.model), spec))
        _save(spec, _converted(spec, prepared), folder)
    elif spec.quantized is not None:
        _save(spec, with_plain_weights(module_of(spec.quantized)), folder)
    else:
        module = cast_module(module_of(spec.model), spec)
        _check_excluded(spec, module)
        _save(
            spec, _guarded(spec, lambda: hold_weights(spec, module)) if spec.scheme == "weight-only" else module, folder
        )


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
    import torch

    axes = free_axes(model)
    if all(0 in free for free in axes.values()) and any(example.shape[0] < 2 for example in examples):
        examples = tuple(torch.cat([tensor, tensor]) for tensor in examples)
    shapes = tuple(dict.fromkeys(free, torch.export.Dim.DYNAMIC) for free in axes.values())
    fix = "see torch.export.export(module, example_inputs); Model.from_torch(..., dynamic=False) fixes all sizes"
    with failing_as(f"torch.export cannot trace '{model.name}'", fix), torch_quiet(), torch.no_grad():
        return torch.export.export(module, examples, dynamic_shapes=shapes)


def _prepared(spec: EngineSpec, *, is_dynamic: bool) -> Any:
    """Return the traced module with observers in it."""
    module = module_of(spec.model)
    graph = traced(spec.model, module, _examples(spec.model)).module()
    _check_excluded(spec, module)
    with torch_quiet():
        import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
        from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

        quantizer = x86.X86InductorQuantizer()
        seven_bits = parse_options(spec.options).seven_bits
        quantizer.set_global(
            x86.get_default_x86_inductor_quantization_config(is_dynamic=is_dynamic, reduce_range=seven_bits)
        )
        for name in spec.exclude:
            quantizer.set_module_name_qconfig(name, None)
        return _guarded(spec, lambda: prepare_pt2e(graph, quantizer))


def _check_excluded(spec: EngineSpec, module: Any) -> None:
    names = {name for name, _ in module.named_modules()}
    for name in spec.exclude:
        if name not in names:
            message = f"exclude names a submodule that {spec.model.name} does not have"
            raise UsageError(message, value=repr(name), allowed=nearest(name, names - {""}))


def _converted(spec: EngineSpec, prepared: Any) -> Any:
    from torchao.quantization.pt2e import move_exported_model_to_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    with torch_quiet():
        converted = _guarded(spec, lambda: convert_pt2e(prepared))
        move_exported_model_to_eval(converted)
    return converted


def _save(spec: EngineSpec, module: Any, folder: Path) -> None:
    import torch

    model = spec.quantized or spec.model
    examples = cast(_examples(model), spec)
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


def _examples(model: Model) -> tuple[Any, ...]:
    examples: Any = model.example_inputs
    return tuple(examples)


def _guarded(spec: EngineSpec, step: Callable[[], Any]) -> Any:
    """Turn whatever torchao raises into a `BuildError` with its cause."""
    fix = "leave the layer in float with exclude=['its.name'], or export to another backend: backend='ort'"
    with failing_as(f"torchao refused to quantize '{spec.model.name}' to {spec.id}", fix):
        return step()


_REBUILD = "pytest-quant cache clear --kind engine, and the next run writes it again"


def load_program(file: Path) -> Any:
    """Return the ``torch.export.ExportedProgram`` in `file`, which lies in a cache that is trusted as code is.

    PyTorch unpickles parts of it, and so runs what they say.

    Raises
    ------
    BuildError : PyTorch cannot read it.
    """
    import torch

    with torch_quiet():
        # Programs name operators that only this import registers.
        import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401

        with failing_as(f"loading the program {file.name} failed", _REBUILD):
            return torch.export.load(file)


RECIPE_VERSION = "2"
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
