"""From a module to an ONNX file that computes the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pytest_quant.backends.base import EXPORTED_FILE, Outputs
from pytest_quant.backends.runtime import name_errors
from pytest_quant.backends.torch import torch_quiet
from pytest_quant.backends.torch.module import example_tensors, free_axes, input_names, module_of, signature_of
from pytest_quant.backends.torch.program import module_digest, trace_module
from pytest_quant.backends.torch.quantize import is_packed, quantizing_parts
from pytest_quant.environment.machine import version
from pytest_quant.errors import BuildError
from pytest_quant.spec import Model

OPSET = 20
"""The newest opset that all the runtimes read here and that has every form of Q/DQ."""

_EXPORT_FIX = "use backend='torch', which needs no ONNX, or export it yourself and name the file"
_CHECK_FIX = "use backend='torch', which needs no ONNX"


def export_ingredients(model: Model) -> dict[str, str]:
    """Return everything that decides the ONNX file."""
    versions = {name: version(name) for name in ("torch", "onnxscript", "onnx")}
    return {"module": module_digest(model), "opset": str(OPSET), "recipe": "2", **versions}


def export_onnx(model: Model, folder: Path) -> Path:
    """Write `model` as ONNX into `folder`, inputs and outputs named as in its `Signature`, and check the file.

    Raises
    ------
    BuildError : torch cannot export the module, or ONNX Runtime computes something else from the file.
    """
    module = module_of(model)
    if is_packed(module):
        raise BuildError(f"'{model.name}' is quantized in eager mode, which ONNX cannot express", fix=_CHECK_FIX)
    examples = tuple(example_tensors(model).values())
    path = folder / EXPORTED_FILE
    signature, traced_module = signature_of(model), trace_module(model, module, examples)
    with torch.no_grad(), name_errors(f"torch cannot export '{model.name}' to ONNX", _EXPORT_FIX), torch_quiet():
        program: Any = torch.onnx.export(
            traced_module,
            dynamo=True,
            opset_version=OPSET,
            input_names=[tensor.name for tensor in signature.inputs],
            output_names=[tensor.name for tensor in signature.outputs],
            verbose=False,
        )
        program.save(str(path))
    _check(model, module, examples, path)
    return path


def _check(model: Model, module: Any, examples: tuple[Any, ...], path: Path) -> None:
    """Compare the file with the module on the example inputs, and on another batch size if that is free."""
    from pytest_quant.backends.ort.session import open_session

    batches = [examples]
    if all(0 in free for free in free_axes(model).values()):
        batches.append(tuple(torch.cat([example, example[:1]]) for example in examples))
    # Each layer may round a float differently in the seventh digit. A value on the edge of two of 255 levels may fall
    # to either side, and the next layer sees it.
    tolerance = 0.1 if quantizing_parts(module) else 1e-3
    with (
        torch.no_grad(),
        name_errors(f"comparing the ONNX export of '{model.name}' with the module failed", _CHECK_FIX),
    ):
        session, _ = open_session(path, simulates=True)
        for batch in batches:
            wanted = {name: output.numpy() for name, output in module(*(each.clone() for each in batch)).items()}
            feeds = dict(zip(input_names(model), (array.numpy() for array in batch), strict=True))
            if difference := _first_difference(wanted, session.run(list(wanted), feeds), tolerance):
                raise BuildError(
                    f"the ONNX export of '{model.name}' computes something else than the module",
                    value=difference,
                    allowed=f"{tolerance:g} of the largest value",
                    fix="look for randomness and data-dependent code in forward(); it must give the same twice",
                )


def _first_difference(wanted: Outputs, outputs: Sequence[NDArray[Any]], tolerance: float) -> str:
    """Return which of `outputs` is off and by how much; empty if each agrees with its counterpart in `wanted`.

    Floats may differ by `tolerance` of the largest value of their output, other values not at all.
    """
    for (name, before), after in zip(wanted.items(), outputs, strict=True):
        if before.shape != after.shape or before.dtype.kind != "f":
            if not np.array_equal(before, after):
                return f"output '{name}' differs"
            continue
        largest = np.abs(before[np.isfinite(before)]).max(initial=0.0) or 1.0
        if not np.allclose(after, before, rtol=0.0, atol=tolerance * largest, equal_nan=True):
            off = np.abs(after.astype(np.float64) - before).max()
            return f"output '{name}' is off by {off:.3g}, of values up to {largest:.3g}"
    return ""
