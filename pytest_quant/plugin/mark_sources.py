"""What a mark names, found: the models, the data and the scores of a check, as fixtures or as files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_quant.backends.runtime import wrap_error
from pytest_quant.errors import QuantError, UsageError
from pytest_quant.marks.keys import MarkKeys, ModelSource
from pytest_quant.plugin.collect import fixture_exists
from pytest_quant.spec import Dataset, Model, Scores


def find_models(request: pytest.FixtureRequest, keys: MarkKeys) -> tuple[Model, Model | None]:
    """Return the float model that a mark names, by default of the fixture ``quant_model``, and the quantized model.

    Raises
    ------
    UsageError : see `_find_model`.
    """
    if keys.model is None:
        model = _model_of(request, _value_of(request, "quant_model"), "quant_model")
    else:
        model = _find_model(request, keys.model, "model")
    return model, None if keys.quantized is None else _find_model(request, keys.quantized, "quantized")


def _find_model(request: pytest.FixtureRequest, source: ModelSource, key: str) -> Model:
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
        model = _model_of(request, _value_of(request, source), source)
        # The name of a file called model.onnx says nothing; that of the fixture identifies the model.
        return replace(model, name=source) if model.name == "model" else model
    if isinstance(source, str) and not Path(source).suffix and not _find_existing(request, Path(source)):
        raise UsageError(
            f"{key}='{source}' is neither a fixture nor a file",
            value="looked for a fixture of that name, and in " + ", ".join(str(folder) for folder in _folders(request)),
            fix=f"write a fixture '{source}' that returns a path, or the path with its suffix",
        )
    return _model_of(request, source, key)


def _model_of(request: pytest.FixtureRequest, value: object, name: str) -> Model:
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
        return Model.from_onnx(_find_existing(request, path) or _folders(request)[0] / path)
    if isinstance(value, tuple) and len(value) == 2 and callable(value[0]):
        return Model.from_torch(*value)
    fix = "return the path of an ONNX file, or pytest_quant.Model.from_torch(module, example_inputs)"
    raise UsageError(f"'{name}' must give a model", value=type(value).__name__, fix=fix)


def _value_of(request: pytest.FixtureRequest, fixture: str) -> object:
    """Return the value of a fixture. Raises `UsageError` with the first line of what it raised, and the file of all."""
    try:
        return request.getfixturevalue(fixture)
    except (QuantError, pytest.FixtureLookupError):
        raise
    except Exception as error:
        fix = "the end of that file names the line"
        raise wrap_error(f"the fixture '{fixture}' raised", error, fix=fix, kind=UsageError) from error


def find_data(request: pytest.FixtureRequest, source: str | Dataset) -> Dataset:
    """Return a dataset, or the value of the fixture called `source` as one."""
    if isinstance(source, Dataset):
        return source
    return Dataset.from_fixture(_value_named(request, "data", source, "Dataset.from_arrays(inputs, labels)"), source)


def find_scores(request: pytest.FixtureRequest, source: str | Scores) -> Scores:
    """Return scores, or the value of the fixture called `source`, with their files as they are found.

    Raises
    ------
    UsageError : `source` is no fixture, its value is no `Scores`, or a file or folder is not there.
    """
    example = "Scores.from_lm_eval('runs/fp16', 'runs/int4')"
    found = _value_named(request, "scores", source, example) if isinstance(source, str) else source
    if not isinstance(found, Scores):
        fix = f"write a fixture '{source}' that returns pytest_quant.{example}"
        raise UsageError(f"'{source}' must give Scores", value=type(found).__name__, fix=fix)
    reference, candidate = (tuple(_there(request, run) for run in side) for side in (found.reference, found.candidate))
    return replace(found, reference=reference, candidate=candidate)


def _value_named(request: pytest.FixtureRequest, key: str, fixture: str, example: str) -> object:
    """Return the value of the fixture that a key names. Raises `UsageError` with an `example` if it is missing."""
    if not fixture_exists(request.node, fixture):
        fix = f"write a fixture '{fixture}' that returns pytest_quant.{example}"
        raise UsageError(f"{key}='{fixture}' is no fixture", fix=fix)
    return _value_of(request, fixture)


def _there(request: pytest.FixtureRequest, run: object) -> object:
    """Return a run whose path is absolute; arrays stay as they are."""
    if not isinstance(run, Path):
        return run
    for folder in _folders(request):
        if (folder / run).exists():
            return folder / run
    where = ", ".join(str(folder) for folder in _folders(request))
    raise UsageError("there is no such file or folder of scores", value=f"{run}, looked for in {where}")


def _find_existing(request: pytest.FixtureRequest, path: Path) -> Path | None:
    return next((folder / path for folder in _folders(request) if (folder / path).is_file()), None)


def _folders(request: pytest.FixtureRequest) -> list[Path]:
    return list(dict.fromkeys((request.path.parent, request.config.rootpath)))
