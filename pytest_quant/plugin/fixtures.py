"""The fixtures a user overrides, and the ones the plugin gives. What they need is imported when they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_quant.errors import UsageError

if TYPE_CHECKING:
    from pytest_quant.backends import Engine
    from pytest_quant.marks.keys import ModelSource
    from pytest_quant.result import Measured
    from pytest_quant.spec import Calibration, Dataset


_WRITE_MODEL = """in conftest.py:

    @pytest.fixture
    def quant_model():
        return "models/resnet18.onnx"

or name a path in the mark: @pytest.mark.quant(model="models/resnet18.onnx")

The model is the float one, which a quantized one is compared with. Who has only a quantized file can
judge its own answers, by Scores and min_accuracy: pytest-quant guide models-and-data"""

_WRITE_DATA = """in conftest.py:

    @pytest.fixture
    def quant_data():
        return pytest_quant.Dataset.from_arrays(inputs, labels, calibration=100)"""


@pytest.fixture
def quant_model() -> object:
    """Give the model under test: a path to ONNX, a `Model`, or ``(torch module, example inputs)``. Override it."""
    raise UsageError("there is no model to test: the fixture quant_model is not written", fix=_WRITE_MODEL)


@pytest.fixture
def quant_data() -> object:
    """Give the labelled data: a `Dataset`, arrays, an iterable of ``(inputs, label)`` or a DataLoader. Override it."""
    raise UsageError("there is no data to test with: the fixture quant_data is not written", fix=_WRITE_DATA)


@pytest.fixture
def _quant_variant(request: pytest.FixtureRequest) -> object | None:
    """Hold the engine that a list in the mark stands for; ``None`` without a list."""
    return getattr(request, "param", None)


@pytest.fixture
def quant(request: pytest.FixtureRequest, _quant_variant: object | None) -> Iterator[Measured | None]:
    """Build, measure and judge the check of this test; what was found, with both engines open.

    ``None`` only when a required backend is not here: the test then fails before its body.
    """
    from pytest_quant.plugin.item_check import check_test

    measurement = check_test(request)
    yield measurement
    if measurement is not None:
        measurement.close()


@pytest.fixture
def quant_engine(request: pytest.FixtureRequest, quant: Measured | None) -> Engine:
    """Give the open candidate."""
    from pytest_quant.plugin.item_check import measurement_or_error

    return measurement_or_error(request.node, quant).engine


@pytest.fixture
def quant_reference(request: pytest.FixtureRequest, quant: Measured | None) -> Engine:
    """Give the open reference."""
    from pytest_quant.plugin.item_check import measurement_or_error

    return measurement_or_error(request.node, quant).reference


def _build_engine(
    request: pytest.FixtureRequest,
    opened: ExitStack,
    backend: str | None = None,
    precision: str = "int8",
    scheme: str | None = None,
    *,
    model: ModelSource | None = None,
    quantized: ModelSource | None = None,
    data: str | Dataset | None = None,
    calibration: str | Mapping[str, object] | Calibration | None = None,
    exclude: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
) -> Engine:
    """Build one engine through the cache and open it; it is closed after the test.

    Parameters
    ----------
    opened : closes the engine.
    backend, precision, scheme : as in the mark; the default backend is that of the option ``--quant-backend``.
    model, quantized : as in the mark; the default of `model` is the fixture ``quant_model``.
    data : as in the mark, by default the fixture ``quant_data``. It is read only where the scheme calibrates, or where
        `data` is given and the backend builds for the shapes in it.
    calibration, exclude, options : as in the mark.

    Raises
    ------
    UsageError : a value is not valid, or the backend does not offer that engine.
    BackendUnavailable : the runtime or its device is not available here.
    """
    from pytest_quant.backends import get_backend
    from pytest_quant.marks.expansion import checks_of, fill_in
    from pytest_quant.marks.keys import read
    from pytest_quant.plugin.devices import choose_for_engine
    from pytest_quant.plugin.item_check import session_of
    from pytest_quant.plugin.mark_sources import find_data, find_models
    from pytest_quant.plugin.settings import settings_of

    values: dict[str, object] = {
        "backend": backend,
        "precision": precision,
        "scheme": scheme,
        "model": model,
        "quantized": quantized,
        "data": data,
        "calibration": dict(calibration) if isinstance(calibration, Mapping) else calibration,
        "exclude": list(exclude),
        "options": dict(options or {}),
    }
    config = request.config
    keys = read(values)
    (check,) = checks_of(keys, settings_of(config).backend)
    spec = fill_in(check, *find_models(request, keys), check.dataset).candidate
    choose_for_engine(config, spec.backend)
    chosen = get_backend(spec.backend)
    chosen.check(spec)
    shaped = keys.data is not None and chosen.offer.fixed_shapes
    reads = shaped or chosen.calibration_ingredients(spec) is not None
    dataset = find_data(request, keys.data or "quant_data") if reads else None
    engine = session_of(config).open_engine(spec, dataset)
    opened.callback(engine.close)
    return engine


@pytest.fixture
def build_engine(request: pytest.FixtureRequest) -> Iterator[Callable[..., Engine]]:
    """Build engines of any backend, precision and scheme: ``build_engine("ort", "int8", "dynamic")``."""
    with ExitStack() as opened:
        yield partial(_build_engine, request, opened)
