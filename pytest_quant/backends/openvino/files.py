"""Models as files: ONNX or OpenVINO's own ``.xml`` with its ``.bin``, the engine's copy and its ingredients."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pytest_quant.backends.offer import calibration_ingredients
from pytest_quant.backends.onnx_files import model_file, model_ingredients, read_signature, sha256_of
from pytest_quant.backends.openvino import parse_options
from pytest_quant.backends.runtime import name_errors, replace_errors, wrap_error
from pytest_quant.environment.machine import onednn_tier, version
from pytest_quant.errors import ModelFileError, QuantError
from pytest_quant.spec import EngineSpec, Model, Signature, TensorInfo

_NOISE = re.compile(r"^(Exception from|Check '.*' failed at|\[.*\] Exception from).*$", re.MULTILINE)
_OPERATORS = re.compile(r"No conversion rule found for operations: (?P<names>[^\n]+)")
_FIX = "check that the float model runs in OpenVINO alone: openvino.Core().compile_model(path, 'CPU')"


def translate_error(doing: str, error: Exception, fix: str = _FIX) -> QuantError:
    """Return the error to raise in place of an error of OpenVINO or NNCF.

    Parameters
    ----------
    doing : the step, in words that complete the sentence "OpenVINO refused ...".
    error : the exception that was raised.
    fix : what the user can do; not used where OpenVINO names an operator that it does not know.

    Returns
    -------
    A `BuildError`.
    """
    text = str(error)
    unknown = _OPERATORS.search(text)
    if unknown is not None:
        names = re.sub(r"-\d+(?=,|$)", "", unknown["names"].strip())
        return wrap_error(
            f"OpenVINO refused {doing}: it has no operator {names}",
            error,
            value=unknown[0].strip(),
            fix="export the model with standard operators, or use a runtime that knows this one",
        )
    lines = [line.strip() for line in _NOISE.sub("", text).splitlines() if line.strip()]
    cause = " ".join(lines) or text.strip() or type(error).__name__
    return wrap_error(f"OpenVINO refused {doing}", error, value=f"{type(error).__name__}: {cause}", fix=fix)


def translate_errors(doing: str, fix: str = _FIX) -> AbstractContextManager[None]:
    """Turn whatever is raised in the block into what `translate_error` returns, except our own errors."""
    return replace_errors(lambda error: translate_error(doing, error, fix))


ENGINE_FILE = "model.xml"
WEIGHTS_FILE = "model.bin"


def is_own(model: Model) -> bool:
    """Tell whether the model is in OpenVINO's own format."""
    return model_file(model).suffix == ".xml"


def digests_of(name: str, model: Model) -> dict[str, str]:
    """Return SHA-256 of every file of the model, under names that start with `name`. Raises `ModelFileError`."""
    path = model_file(model)
    if not is_own(model):
        return model_ingredients(name, model)
    names = name, f"{name} data {path.stem}.bin"
    return {key: sha256_of(file) for key, file in zip(names, _own_files(path), strict=True)}


def signature_of(model: Model) -> Signature:
    """Return the model's inputs and outputs under the names of its own file. Raises `ModelFileError`."""
    path = model_file(model)
    if not is_own(model):
        return read_signature(path)
    opened = read_model(path)
    return Signature(tuple(map(_tensor, opened.inputs)), tuple(map(_tensor, opened.outputs)))


def read_model(path: Path) -> Any:
    """Return OpenVINO's model of the file.

    Raises
    ------
    ModelFileError : the file is missing, or not a model.
    BuildError : OpenVINO does not know an operator.
    """
    import openvino

    if path.suffix == ".xml":
        _own_files(path)
    else:
        read_signature(path)
    with translate_errors(f"the model {path.name}"):
        return openvino.Core().read_model(path)


def write_engine(spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
    """Write the model that the engine is compiled from, as ``model.xml`` and ``model.bin``.

    Weights keep their type: in FP16 they would halve the file, and be another model.

    Parameters
    ----------
    spec : the engine; without `calibration` its float model, or the one that arrives quantized, is written.
    calibration : a folder with the quantized model of `write_quantized`, which is copied; ``None`` where there is none.
    folder : the folder to write into.

    Raises
    ------
    ModelFileError : the file is missing, or not a model.
    BuildError : OpenVINO does not know an operator, or cannot write the model.
    """
    if calibration is not None:
        for name in (ENGINE_FILE, WEIGHTS_FILE):
            shutil.copyfile(calibration / name, folder / name)
        return
    save_model(read_model(model_file(spec.quantized or spec.model)), folder)


def save_model(model: Any, folder: Path) -> None:
    """Write `model` into `folder` with weights of the type they have."""
    import openvino

    with name_errors("OpenVINO could not write the model"):
        openvino.save_model(model, folder / ENGINE_FILE, compress_to_fp16=False)


def _own_files(path: Path) -> tuple[Path, Path]:
    files = path, path.with_suffix(".bin")
    for file in files:
        if not file.is_file():
            fix = "an OpenVINO model is two files, .xml and .bin, side by side"
            raise ModelFileError(f"the model file does not exist: {file}", fix=fix)
    return files


def _tensor(port: Any) -> TensorInfo:
    if not port.get_names():
        raise ModelFileError("an input or output has no name", fix="name it: model.input(0).tensor.set_names({'x'})")
    shape = port.get_partial_shape()
    dtype = str(port.get_element_type().to_dtype())
    sizes = None if shape.rank.is_dynamic else tuple(None if size.is_dynamic else size.get_length() for size in shape)
    return TensorInfo(port.get_any_name(), dtype, sizes)


RECIPE_VERSION = "4"
"""Raised when the same ingredients would be built into something else."""


def engine_ingredients(spec: EngineSpec) -> dict[str, str]:
    """Return everything but the data that decides the engine and what it computes. Raises `ModelFileError`."""
    ours = {
        **_common(spec),
        "instruction set": onednn_tier(),
        "precision": spec.precision,
        "scheme": str(spec.scheme),
        "threads": str(parse_options(spec.options).threads),
    }
    if spec.quantized is not None:
        return ours | digests_of("quantized model", spec.quantized)
    return ours | _quantizer(spec) if spec.scheme == "static" else ours


def quantizing_ingredients(spec: EngineSpec) -> dict[str, str]:
    """Return everything but the data that decides the quantized model. Raises `ModelFileError`."""
    return {**_common(spec), **_quantizer(spec), **calibration_ingredients(spec)}


def _common(spec: EngineSpec) -> dict[str, str]:
    return {**digests_of("model", spec.model), "openvino": version("openvino"), "recipe": RECIPE_VERSION}


def _quantizer(spec: EngineSpec) -> dict[str, str]:
    options = parse_options(spec.options)
    return {
        "nncf": version("nncf"),
        "preset": options.preset,
        "overflow_fix": options.seven_bits(spec.cpus),
        "model_type": str(options.model_type),
        "fast_bias_correction": str(options.fast_bias_correction),
        "exclude": json.dumps(sorted(spec.exclude)),
    }
