"""The fixtures a user overrides, and the ones the plugin gives. What they need is imported when they run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_quant.backends import Engine
    from pytest_quant.measure.measurement import Measurement
    from pytest_quant.plugin.engine_fixture import EngineFactory


_WRITE_MODEL = """in conftest.py:

    @pytest.fixture
    def quant_model():
        return "models/resnet18.onnx"

or name a path in the mark: @pytest.mark.quant(model="models/resnet18.onnx")"""

_WRITE_DATA = """in conftest.py:

    @pytest.fixture
    def quant_data():
        return pytest_quant.Dataset.from_arrays(inputs, labels, calibration=100)"""


@pytest.fixture
def quant_model() -> object:
    """Give the model under test: a path to ONNX, a `Model`, or ``(torch module, example inputs)``. Override it."""
    from pytest_quant.errors import UsageError

    raise UsageError("there is no model to test: the fixture quant_model is not written", fix=_WRITE_MODEL)


@pytest.fixture
def quant_data() -> object:
    """Give the labelled data: a `Dataset`, arrays, an iterable of ``(inputs, label)`` or a DataLoader. Override it."""
    from pytest_quant.errors import UsageError

    raise UsageError("there is no data to test with: the fixture quant_data is not written", fix=_WRITE_DATA)


@pytest.fixture
def _quant_variant(request: pytest.FixtureRequest) -> object | None:
    """Hold the engine that a list in the mark stands for; ``None`` without a list."""
    return getattr(request, "param", None)


@pytest.fixture
def quant(request: pytest.FixtureRequest, _quant_variant: object | None) -> Iterator[Measurement | None]:
    """Build, measure and judge the check of this test; what was found, with both engines open.

    ``None`` only when a required backend is not here: the test then fails before its body.
    """
    from pytest_quant.plugin.check import check_test

    measurement = check_test(request)
    yield measurement
    if measurement is not None:
        measurement.close()


@pytest.fixture
def quant_engine(request: pytest.FixtureRequest, quant: Measurement | None) -> Engine:
    """Give the open candidate."""
    from pytest_quant.plugin.check import measurement_or_error

    return measurement_or_error(request.node, quant).engine


@pytest.fixture
def quant_reference(request: pytest.FixtureRequest, quant: Measurement | None) -> Engine:
    """Give the open reference."""
    from pytest_quant.plugin.check import measurement_or_error

    return measurement_or_error(request.node, quant).reference


@pytest.fixture
def build_engine(request: pytest.FixtureRequest) -> Iterator[EngineFactory]:
    """Build engines of any backend, precision and scheme: ``build_engine("ort", "int8", "dynamic")``."""
    from pytest_quant.plugin.engine_fixture import EngineFactory

    with ExitStack() as opened:
        yield EngineFactory(request, opened)
