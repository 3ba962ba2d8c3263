"""From the words of a mark to fixtures, files and the backend that stands in for a missing GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.backends import TargetedBackend, get_backend
from pytest_quant.errors import UsageError
from pytest_quant.marks.values import ModelSource
from pytest_quant.spec import Check, Dataset, EngineSpec, Model


def fixture_exists(node: pytest.Item | pytest.Collector, name: str) -> bool:
    """Tell whether `node` sees a fixture of that name."""
    manager = node.session._fixturemanager  # noqa: SLF001 - pytest has no public way to ask
    return bool(manager.getfixturedefs(name, node))


def find_model(request: pytest.FixtureRequest, source: ModelSource, key: str) -> Model:
    """Return the model that the mark's `key` names: a fixture's, else a file beside the test, else under the root."""
    if isinstance(source, str) and fixture_exists(request.node, source):
        found = model_of(request, request.getfixturevalue(source), source)
        # A file called model.onnx says nothing; the fixture that the mark names says which one it is.
        return replace(found, name=source) if found.name == "model" else found
    if isinstance(source, str) and not Path(source).suffix and not _existing(request, Path(source)):
        raise UsageError(
            f"{key}='{source}' is neither a fixture nor a file",
            value="looked for a fixture of that name, and in " + ", ".join(str(folder) for folder in _folders(request)),
            fix=f"write a fixture '{source}' that returns a path, or the path with its suffix",
        )
    return model_of(request, source, key)


def model_of(request: pytest.FixtureRequest, value: object, name: str) -> Model:
    """Turn what a fixture or a mark gave into a `Model`; a missing file is left to the backend to report."""
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
    """Return the dataset that a fixture gives."""
    if isinstance(source, Dataset):
        return source
    if not fixture_exists(request.node, source):
        raise UsageError(
            f"data='{source}' is no fixture",
            fix=f"write a fixture '{source}' that returns pytest_quant.Dataset.from_arrays(inputs, labels)",
        )
    return Dataset.of(request.getfixturevalue(source), source)


def _existing(request: pytest.FixtureRequest, path: Path) -> Path | None:
    found = (folder / path for folder in _folders(request))
    return next((file for file in found if file.is_file()), None)


def _folders(request: pytest.FixtureRequest) -> list[Path]:
    return list(dict.fromkeys((request.path.parent, request.config.rootpath)))


def simulate_check(check: Check, target: str | None) -> Check:
    """Name `target`, such as ``SM89``, to the engines of `check` that take one and cannot be had here otherwise."""
    if target is None:
        return check
    return replace(check, candidate=_targeted(check.candidate, target), reference=_targeted(check.reference, target))


def _targeted(spec: EngineSpec, target: str) -> EngineSpec:
    backend = get_backend(spec.backend)
    if not isinstance(backend, TargetedBackend):
        return spec
    targeted = backend.for_target(spec, target)
    return spec if targeted == spec or backend.availability(spec).available else targeted
