"""The backend ``callable``: a function of the user's, or a client of a server, in the place of an engine."""

from __future__ import annotations

import platform
from pathlib import Path

from pytest_quant.backends.base import Backend, Engine
from pytest_quant.backends.offer import Availability, Offer
from pytest_quant.errors import UsageError
from pytest_quant.spec import ARRIVING, QUANTIZED_PRECISIONS, EngineSpec, Model, Signature


class CallableBackend(Backend):
    """Nothing is built and nothing is read back; the precision is what the mark says of the function."""

    name = "callable"
    offer = Offer(
        {**dict.fromkeys(("", "fp32", "fp16", "bf16"), (None,)), **dict.fromkeys(QUANTIZED_PRECISIONS, ARRIVING)},
        reads="callable",
    )

    def availability(self, spec: EngineSpec | None = None) -> Availability:  # noqa: ARG002
        """Tell that it is there: it is Python's own."""
        return Availability(True, version=platform.python_version(), device=self.device)

    def signature(self, model: Model) -> Signature:
        """Return the inputs that the data has; outputs are known when it has run. Raises `UsageError`."""
        return called(model).signature or Signature((), ())

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Return the function's name and version; nothing of one without a version, of which nothing is kept."""
        model = called(spec.quantized or spec.model)
        of_model = "model" if spec.quantized is None else "quantized model"
        where = f"{getattr(model.call, '__module__', '')}.{getattr(model.call, '__qualname__', '')}"
        return {of_model: f"{where} as {model.name}, version {model.version}"} if model.version else {}

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Do nothing."""

    def open(self, spec: EngineSpec, folder: Path) -> Engine:  # noqa: ARG002
        """Take the function as it is."""
        from pytest_quant.backends.callable.engine import CallableEngine

        return CallableEngine(spec, called(spec.quantized or spec.model))


def called(model: Model) -> Model:
    """Return `model`. Raises `UsageError` where it is no function."""
    if model.call is None:
        raise UsageError(
            f"backend 'callable' runs functions, and model '{model.name}' is none",
            value=str(model.path) if model.path else type(model.module).__name__,
            fix="write Model.from_callable(fn, version='...'), or name the backend that reads this model",
        )
    return model
