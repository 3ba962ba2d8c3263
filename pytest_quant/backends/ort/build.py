"""Write the quantized model of a spec into a folder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from pytest_quant.backends.onnx_files import file_digests, model_file
from pytest_quant.backends.ort.exclude import excluded_nodes
from pytest_quant.backends.ort.prepare import prepare
from pytest_quant.backends.ort.quantize import write_dynamic, write_int4, write_static
from pytest_quant.backends.ort.recipe import Recipe, recipe_of
from pytest_quant.backends.ort.refusal import refused
from pytest_quant.backends.ort.runtime import quiet
from pytest_quant.errors import QuantError
from pytest_quant.spec import EngineSpec, Model

ENGINE_FILE = "model.onnx"
_IN_PLACE = "in_place.txt"
_FIX = "leave the operator in float with exclude=[...] or options={'op_types': [...]}, or try another scheme"


def engine_file(spec: EngineSpec, folder: Path) -> Path:
    """Return the ONNX file that the session opens: the one built, or the user's own, untouched."""
    own = used_in_place(spec)
    return folder / ENGINE_FILE if own is None else model_file(own)


def used_in_place(spec: EngineSpec) -> Model | None:
    """Return the model that is opened as it is: the float one, or one that arrives quantized; else ``None``."""
    if spec.scheme is None:
        return spec.model
    return spec.quantized if spec.scheme == "qat" else None


def write_engine(spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
    """Write the engine of `spec` into `folder`.

    Raises
    ------
    BuildError : ONNX Runtime could not quantize the model.
    UsageError : `exclude` names a node that is not there.
    """
    own = used_in_place(spec)
    if own is not None:
        lines = [f"{digest}  {location or 'model'}" for location, digest in file_digests(model_file(own)).items()]
        (folder / _IN_PLACE).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    recipe = recipe_of(spec)
    with tempfile.TemporaryDirectory(prefix="pytest-quant-") as work:
        prepared = prepare(spec, Path(work), per_channel=recipe.per_channel)
        exclude = excluded_nodes(spec, prepared)
        _guarded(spec, _writer(spec, recipe, prepared, exclude, calibration, folder / ENGINE_FILE))


def _writer(
    spec: EngineSpec, recipe: Recipe, prepared: Path, exclude: list[str], calibration: Path | None, target: Path
) -> Callable[[], None]:
    """Choose the quantizer of the scheme; `check` let only these through."""
    if spec.scheme == "static" and calibration is not None:
        return lambda: write_static(spec, recipe, prepared, exclude, calibration, target)
    if spec.scheme == "dynamic":
        return lambda: write_dynamic(recipe, prepared, exclude, target)
    return lambda: write_int4(recipe, prepared, exclude, target)


def _guarded(spec: EngineSpec, write: Callable[[], None]) -> None:
    """The quantizer raises whatever its Python meets, so every exception becomes a `BuildError` with its cause."""
    try:
        with quiet():
            write()
    except QuantError:
        raise
    except Exception as error:
        raise refused(f"to quantize {spec.model.name} to {spec.id}", error, _FIX) from error
