"""Bad input is a clear error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends.base import Backend, Feeds
from pytest_quant.errors import DataError, UsageError
from pytest_quant.testing.conformance.examples import dense
from pytest_quant.testing.conformance.workbench import Workbench, float_spec, model_for, opened, specs

_BAD_FEEDS: dict[str, tuple[Callable[[Feeds], Feeds], str]] = {
    "name": (lambda feeds: {"z": feeds["x"]}, "input 'z'"),
    "missing": (lambda _: {}, "input 'x' is missing"),
    "rank": (lambda feeds: {"x": feeds["x"][0]}, "wrong rank"),
    "size": (lambda feeds: {"x": feeds["x"][:, :-1]}, "wrong shape"),
    "dtype": (lambda feeds: {"x": feeds["x"].astype(np.float64)}, "wrong dtype"),
}


class FailureTests(Workbench):
    """Each error is ours, names what is wrong, and comes before a wrong number does."""

    @pytest.mark.parametrize("kind", _BAD_FEEDS)
    def test_wrong_inputs(self, backend: Backend, tmp_path: Path, kind: str) -> None:
        """A wrong name, rank, size or dtype is a DataError in `run` and in `prepare`; the engine stays usable."""
        spoil, message = _BAD_FEEDS[kind]
        example = dense()
        feeds = example.feeds(2, 80)
        with opened(backend, float_spec(backend, model_for(backend, example, tmp_path)), example) as engine:
            for call in (engine.run, engine.prepare):
                with pytest.raises(DataError, match=message):
                    call(spoil(feeds))
            np.testing.assert_allclose(engine.run(feeds)["y"], example.compute(feeds)["y"], rtol=1e-4, atol=1e-5)

    def test_unknown_option(self, backend: Backend, tmp_path: Path) -> None:
        """An option that the backend does not know is a UsageError that names it."""
        spec = replace(float_spec(backend, model_for(backend, dense(), tmp_path)), options=(("no_such_option", 1),))
        with pytest.raises(UsageError, match="no_such_option"):
            backend.check(spec)

    def test_unknown_scheme(self, backend: Backend, tmp_path: Path) -> None:
        """A scheme that the backend does not offer is a UsageError."""
        with pytest.raises(UsageError):
            backend.check(
                replace(
                    float_spec(backend, model_for(backend, dense(), tmp_path)), precision="int8", scheme="astrology"
                )
            )

    def test_no_calibration_batch(self, backend: Backend, tmp_path: Path) -> None:
        """A scheme that calibrates and gets no batch is a DataError, not an engine with invented ranges."""
        for spec in specs(backend, model_for(backend, dense(), tmp_path)):
            if backend.calibration_ingredients(spec) is not None:
                with pytest.raises(DataError, match="no batch"):
                    backend.calibrate(spec, lambda: iter(()), tmp_path)
