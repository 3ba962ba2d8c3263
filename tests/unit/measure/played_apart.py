"""A backend whose engines do in another process what their precision names: noise, crashes and calls that never end."""

from __future__ import annotations

import atexit
import hashlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pytest_quant.backends import Availability, Backend, Engine, Feeds, Offer, Outputs
from pytest_quant.errors import BuildError
from pytest_quant.measure.build import BuiltEngine
from pytest_quant.measure.engines import TimingSubject
from pytest_quant.spec import EngineSpec, Model, Signature, TensorInfo
from tests.unit.measure.played import Played

FEEDS: Feeds = {"x": np.ones((1, 2), np.float32)}
SIGNATURE = Signature((TensorInfo("x", "float32", (None, 2)),), (TensorInfo("y", "float32", (None, 2)),))


def _write_noise() -> None:
    """As runtimes do: through Python, and past it."""
    sys.stdout.write("noise\n")
    os.write(1, b"\x80\x00 more noise\n")


def _end_slowly() -> None:
    """As runtimes do that free what they hold: a third of a second of work, and then the end."""
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000)
    Path("ended").touch()


def _refuse() -> None:
    raise BuildError(f"in {Path.cwd()} with {os.environ.get('PLAYED')}", fix="look there")


BEFORE_RUN: dict[str, Callable[[], object]] = {
    "quiet": lambda: None,
    "noisy": _write_noise,
    "dies in a run": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "raises in a run": lambda: 1 // 0,
    "hangs in a run": signal.pause,
    "ends": lambda: None,
}
WHEN_OPENED: dict[str, Callable[[], object]] = {
    "noisy": _write_noise,
    "hangs": signal.pause,
    "refuses": _refuse,
    "ends": lambda: atexit.register(_end_slowly),
}


class PlayedBackend(Backend):
    """A backend that opens engines, and builds none."""

    name = "played"
    offer = Offer({})

    def availability(self, spec: EngineSpec | None = None) -> Availability:  # noqa: ARG002 - a backend's method
        """Tell that it is here."""
        return Availability(True)

    def signature(self, model: Model) -> Signature:  # noqa: ARG002 - a backend's method
        """Return that of every model."""
        return SIGNATURE

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Nothing is built here."""
        raise NotImplementedError

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Nothing is built here."""
        raise NotImplementedError

    def open(self, spec: EngineSpec, folder: Path) -> Engine:  # noqa: ARG002 - a backend's method
        """Do what the precision says."""
        WHEN_OPENED.get(spec.precision, lambda: None)()

        def run(feeds: Feeds) -> Outputs:
            BEFORE_RUN[spec.precision]()
            return {"y": feeds["x"]}

        return Played(run, SIGNATURE)


def played(precision: str, backend: Any = None, model: Model | None = None) -> TimingSubject:
    """Return an engine that does what `precision` names."""
    spec = EngineSpec("played", precision, None, model or Model("net"))
    own: Any = backend or PlayedBackend()
    return TimingSubject(BuiltEngine(spec, own, Path(), "key", "hit", "", None, None, None), FEEDS)
