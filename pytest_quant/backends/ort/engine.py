"""One open session, and what a check asks of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pytest_quant.backends.base import EngineBase, Feeds, Outputs
from pytest_quant.backends.onnx_files import read_signature, size_bytes
from pytest_quant.backends.ort.build import engine_file
from pytest_quant.backends.ort.coverage import measure_coverage
from pytest_quant.backends.ort.options import CPU, parse_options
from pytest_quant.backends.ort.recipe import recipe_of
from pytest_quant.backends.ort.session import open_session, refused
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec


def open_engine(spec: EngineSpec, folder: Path) -> OrtEngine:
    """Open the engine that `build` wrote. Raises `BuildError` or `ModelError`."""
    return OrtEngine(spec, engine_file(spec, folder))


class OrtEngine(EngineBase):
    """A session on the CPU; a subclass opens one on another provider.

    Attributes
    ----------
    notes : what the recipe chose for the user, in words.
    path : the ONNX file that is open.
    threads : threads of one operator.
    """

    provider: str = CPU

    def __init__(self, spec: EngineSpec, path: Path) -> None:
        self.spec = spec
        self.signature = read_signature(path)
        self.size_bytes = size_bytes(path)
        self.notes = recipe_of(spec).notes
        self.path = path
        self.threads: int = parse_options(spec.options).threads
        self._session: Any = self.open_session()
        self._names = [tensor.name for tensor in self.signature.outputs]

    def open_session(self) -> Any:
        """Open the session on this engine's provider and prove that it is there."""
        return open_session(self.path, self.threads)

    def _run(self, feeds: Feeds) -> Outputs:
        try:
            return dict(zip(self._names, self._session.run(self._names, feeds), strict=True))
        except Exception as error:
            raise refused(f"a run of {self.spec.id}", error) from error

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return the session's own `run` over `feeds`."""
        return partial(self._session.run, None, feeds)

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Profile one run in a session of its own and count what ran in the asked precision."""
        return measure_coverage(self.path, self.spec, self.threads, feeds)

    def _close(self) -> None:
        self._session = None
