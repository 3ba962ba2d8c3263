"""One open session on OpenVINO, and what a check asks of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.ort.build import engine_file
from pytest_quant.backends.ort.engine import OrtEngine
from pytest_quant.backends.ort_openvino.coverage import measure_coverage
from pytest_quant.backends.ort_openvino.plugin import PROVIDER, open_session
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec


def open_engine(spec: EngineSpec, folder: Path) -> OrtOpenVinoEngine:
    """Open the engine that `build` wrote. Raises `BuildError` or `ModelError`."""
    return OrtOpenVinoEngine(spec, engine_file(spec, folder))


class OrtOpenVinoEngine(OrtEngine):
    """A session whose products are all on OpenVINO."""

    provider = PROVIDER

    def open_session(self) -> Any:
        """Open the session and note what stays on the CPU provider beside it."""
        session, beside = open_session(self.path, self.threads)
        self.notes = (*self.notes, *beside)
        return session

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Run once in a session of its own that counts kernels."""
        return measure_coverage(self.path, self.spec, self.threads, feeds)
