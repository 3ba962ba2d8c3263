"""Float simulation of a Q/DQ graph: every pair rounds, every product runs in float."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pytest_quant.backends.base import Feeds, Outputs
from pytest_quant.backends.misfit import misfit
from pytest_quant.backends.onnx_files import read_signature
from pytest_quant.backends.ort.refusal import run_refused
from pytest_quant.backends.ort.session import open_session
from pytest_quant.errors import BuildError
from pytest_quant.spec import Signature


class Simulation:
    """A session of ONNX Runtime on the CPU that leaves Q/DQ pairs as they are; `name` is what errors call it."""

    def __init__(self, path: Path, name: str) -> None:
        self.signature: Signature = read_signature(path)
        self._name = name
        self._names = [tensor.name for tensor in self.signature.outputs]
        self._session: Any = open_session(path, threads=1, simulates=True)

    def run(self, feeds: Feeds) -> Outputs:
        """Run one batch. Raises `DataError` when the inputs do not fit the model."""
        call = self.prepare(feeds)
        try:
            found: Any = call()
        except Exception as error:
            raise run_refused(error, feeds, self.signature, f"a simulated run of {self._name}") from error
        return dict(zip(self._names, found, strict=True))

    def prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return the session's own `run` over `feeds`. Raises `DataError` when they do not fit the model."""
        if self._session is None:
            raise BuildError(f"engine {self._name} is closed", fix="run it before close()")
        wrong = misfit(feeds, self.signature)
        if wrong is not None:
            raise wrong
        return partial(self._session.run, self._names, feeds)

    def close(self) -> None:
        """Drop the session."""
        self._session = None
