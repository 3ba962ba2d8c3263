"""The fixture `build_engine`: any engine, by the keys of the mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import pytest

from pytest_quant.backends import Engine, ShapedBackend, get_backend
from pytest_quant.marks.check import checks_of, fill_in
from pytest_quant.marks.keys import ModelSource, read
from pytest_quant.plugin.check import session_of
from pytest_quant.plugin.devices import choose_for_engine
from pytest_quant.plugin.resolve import find_data, find_models
from pytest_quant.plugin.settings import settings_of
from pytest_quant.spec import Calibration, Dataset


class EngineFactory:
    """Builds engines for one test; closing `opened` closes them."""

    def __init__(self, request: pytest.FixtureRequest, opened: ExitStack) -> None:
        self._request = request
        self._opened = opened

    def __call__(
        self,
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
        backend, precision, scheme : as in the mark; the default backend is that of the option ``--quant-backend``.
        model, quantized : as in the mark; the default of `model` is the fixture ``quant_model``.
        data : as in the mark, by default the fixture ``quant_data``. It is read only where the scheme calibrates, or
            where `data` is given and the backend builds for the shapes in it.
        calibration, exclude, options : as in the mark.

        Raises
        ------
        UsageError : a value is not valid, or the backend does not offer that engine.
        BackendUnavailable : the runtime or its device is not available here.
        """
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
        request, config = self._request, self._request.config
        keys = read(values)
        (check,) = checks_of(keys, settings_of(config).backend)
        spec = fill_in(check, *find_models(request, keys), check.dataset).candidate
        choose_for_engine(config, spec.backend)
        chosen = get_backend(spec.backend)
        shaped = keys.data is not None and isinstance(chosen, ShapedBackend)
        reads = shaped or chosen.calibration_ingredients(spec) is not None
        dataset = find_data(request, keys.data or "quant_data") if reads else None
        engine = session_of(config).open_engine(spec, dataset)
        self._opened.callback(engine.close)
        return engine
