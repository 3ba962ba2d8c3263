"""Torch modules become ONNX files, once for each content, where the backend reads files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_quant.backends import get_backend
from pytest_quant.backends.failure import failing_as
from pytest_quant.cache import Cache
from pytest_quant.engines import Step
from pytest_quant.errors import BackendUnavailable
from pytest_quant.spec import Check, EngineSpec, Model


def export_check(check: Check, cache: Cache, step: Step) -> Check:
    """Return `check` with every torch module replaced by its export, where the side's backend reads ONNX."""
    return replace(
        check,
        candidate=export_spec(check.candidate, cache, step),
        reference=export_spec(check.reference, cache, step),
    )


def export_spec(spec: EngineSpec, cache: Cache, step: Step) -> EngineSpec:
    """Return `spec` with its torch modules exported to ONNX, through the cache.

    Raises
    ------
    BackendUnavailable : torch is not installed.
    BuildError : torch cannot export the module, or the export computes something else.
    """
    if get_backend(spec.backend).reads == "module":
        return spec
    quantized = None if spec.quantized is None else _exported(spec.quantized, cache, step)
    return replace(spec, model=_exported(spec.model, cache, step), quantized=quantized)


def _exported(model: Model, cache: Cache, step: Step) -> Model:
    if model.module is None:
        return model
    found = get_backend("torch").availability()
    if not found.available:
        raise BackendUnavailable(f"model '{model.name}' is a torch module: {found.reason}", fix=found.fix or None)
    from pytest_quant.backends.torch.export import ONNX_FILE, export_ingredients, export_onnx

    def build(folder: Path) -> dict[str, str]:
        doing = f"exporting {model.name} to ONNX"
        with step(doing), failing_as(f"{doing} failed"):
            export_onnx(model, folder)
        return {}

    entry = cache.obtain("export", f"ONNX of {model.name}", export_ingredients(model), build)
    return Model.from_onnx(entry.folder / ONNX_FILE, name=model.name)
