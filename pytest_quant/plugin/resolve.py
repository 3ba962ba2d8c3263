"""Resolution of a mark's values to models, data, and the simulation of a missing GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.backends import TARGET, get_backend
from pytest_quant.errors import UsageError
from pytest_quant.marks.keys import MarkKeys, ModelSource
from pytest_quant.spec import Check, Dataset, EngineSpec, Model


def fixture_exists(node: pytest.Item | pytest.Collector, name: str) -> bool:
    """Whether a fixture called `name` is visible to `node`."""
    manager = node.session._fixturemanager  # noqa: SLF001 - pytest has no public way to ask
    return bool(manager.getfixturedefs(name, node))


def find_models(request: pytest.FixtureRequest, keys: MarkKeys) -> tuple[Model, Model | None]:
    """Return the float model that a mark names, by default that of the fixture ``quant_model``, and the quantized one.

    Raises
    ------
    UsageError : see `find_model`.
    """
    if keys.model is None:
        model = model_of(request, request.getfixturevalue("quant_model"), "quant_model")
    else:
        model = find_model(request, keys.model, "model")
    return model, None if keys.quantized is None else find_model(request, keys.quantized, "quantized")


def find_model(request: pytest.FixtureRequest, source: ModelSource, key: str) -> Model:
    """Return the model that a key of the mark names.

    Parameters
    ----------
    request : of the test.
    source : a fixture, else a file relative to the test's folder, else relative to the root directory.
    key : of the mark, for messages.

    Raises
    ------
    UsageError : `source` is neither a fixture nor a file, or its value is no model.
    """
    if isinstance(source, str) and fixture_exists(request.node, source):
        model = model_of(request, request.getfixturevalue(source), source)
        # The name of a file called model.onnx says nothing; that of the fixture identifies the model.
        return replace(model, name=source) if model.name == "model" else model
    if isinstance(source, str) and not Path(source).suffix and not _existing(request, Path(source)):
        raise UsageError(
            f"{key}='{source}' is neither a fixture nor a file",
            value="looked for a fixture of that name, and in " + ", ".join(str(folder) for folder in _folders(request)),
            fix=f"write a fixture '{source}' that returns a path, or the path with its suffix",
        )
    return model_of(request, source, key)


def model_of(request: pytest.FixtureRequest, value: object, name: str) -> Model:
    """Return the value of a fixture or a mark as a `Model`; a missing file is reported later, by the backend.

    Parameters
    ----------
    request : of the test, whose folder and root directory are searched for files.
    value : a `Model`, a path, or ``(torch module, example inputs)``.
    name : of the fixture or key, for messages.

    Raises
    ------
    UsageError : `value` is none of these.
    """
    if isinstance(value, Model):
        return value
    if isinstance(value, (str, Path)):
        path = Path(value).expanduser()
        return Model.from_onnx(_existing(request, path) or _folders(request)[0] / path)
    if isinstance(value, tuple) and len(value) == 2 and callable(value[0]):
        return Model.from_torch(*value)
    fix = "return the path of an ONNX file, or pytest_quant.Model.from_torch(module, example_inputs)"
    raise UsageError(f"'{name}' must give a model", value=type(value).__name__, fix=fix)


def find_data(request: pytest.FixtureRequest, source: str | Dataset) -> Dataset:
    """Return a dataset, or the value of the fixture called `source` as one."""
    if isinstance(source, Dataset):
        return source
    if not fixture_exists(request.node, source):
        raise UsageError(
            f"data='{source}' is no fixture",
            fix=f"write a fixture '{source}' that returns pytest_quant.Dataset.from_arrays(inputs, labels)",
        )
    return Dataset.of(request.getfixturevalue(source), source)


def _existing(request: pytest.FixtureRequest, path: Path) -> Path | None:
    candidates = (folder / path for folder in _folders(request))
    return next((file for file in candidates if file.is_file()), None)


def _folders(request: pytest.FixtureRequest) -> list[Path]:
    return list(dict.fromkeys((request.path.parent, request.config.rootpath)))


def simulate_check(check: Check, target: str | None) -> Check:
    """Return a check whose engines are built for `target`, ``SM89`` say, where they take one and cannot run here."""
    if target is None:
        return check
    return check.map_engines(lambda spec: _targeted(spec, target))


def _targeted(spec: EngineSpec, target: str) -> EngineSpec:
    backend = get_backend(spec.backend)
    options = dict(spec.options)
    if TARGET in options or TARGET not in backend.offer.options or backend.availability(spec).available:
        return spec
    return replace(spec, options=tuple(sorted({**options, TARGET: target}.items())))
