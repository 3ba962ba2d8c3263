"""One open session, and what a check asks of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from pytest_quant.backends.base import EngineBase, Feeds, Outputs
from pytest_quant.backends.onnx_files import read_signature, size_bytes
from pytest_quant.backends.ort.build import engine_file
from pytest_quant.backends.ort.coverage import count_coverage, reach_of
from pytest_quant.backends.ort.macs import read_profile
from pytest_quant.backends.ort.options import parse_options
from pytest_quant.backends.ort.recipe import recipe_of
from pytest_quant.backends.ort.session import ON_CPU, Provider, open_session, profiled, refused
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec


def open_engine(spec: EngineSpec, folder: Path) -> OrtEngine:
    """Open the engine that `build` wrote on the CPU. Raises `BuildError` or `ModelError`."""
    threads = parse_options(spec.options).threads
    return OrtEngine(spec, engine_file(spec, folder), threads=threads, notes=recipe_of(spec).notes)


class OrtEngine(EngineBase):
    """A session on some providers, the first of which is the one that is judged.

    Parameters
    ----------
    path : the ONNX file to open.
    threads : of one operator; ``None`` leaves them to ONNX Runtime.
    notes : choices made for the user, one sentence each; one on the nodes that stay on the CPU is added.

    Attributes
    ----------
    path : the ONNX file that is open, for whoever wants to run it without this package.
    """

    def __init__(
        self,
        spec: EngineSpec,
        path: Path,
        providers: Sequence[Provider] = ON_CPU,
        *,
        threads: int | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.spec = spec
        self.provider = providers[0].name
        self.signature = read_signature(path)
        self.size_bytes = size_bytes(path)
        self.threads = threads
        self.path, self._providers = path, providers
        self._names = [tensor.name for tensor in self.signature.outputs]
        session, beside = open_session(path, providers, threads=threads)
        self._session: Any = session
        self.notes = (*notes, *beside)

    def _run(self, feeds: Feeds) -> Outputs:
        try:
            return dict(zip(self._names, self._session.run(self._names, feeds), strict=True))
        except Exception as error:
            raise refused(f"a run of {self.spec.id}", error) from error

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return the session's own `run` over `feeds`."""
        return partial(self._session.run, None, feeds)

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Profile one run in a session of its own and count the products that ran in the asked precision, and where."""
        with self._profiled(feeds) as file:
            nodes = read_profile(file)
        return count_coverage(nodes, self.spec.precision, reach_of(self.spec, self.path))

    def _profiled(self, feeds: Feeds) -> AbstractContextManager[Path]:
        return profiled(self.path, self._providers, feeds, f"a profiled run of {self.spec.id}", threads=self.threads)

    def _close(self) -> None:
        self._session = None
