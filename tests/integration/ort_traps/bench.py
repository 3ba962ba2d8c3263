"""Builds an engine of the backend `ort` in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_quant.backends import Engine, Feeds, get_backend
from pytest_quant.backends.ort.build import ENGINE_FILE
from pytest_quant.spec import Calibration, EngineSpec, Model

Batches = Callable[[], Iterator[Feeds]]


def spec_of(
    model: Model,
    scheme: str | None,
    *,
    calibration: Calibration | None = None,
    exclude: tuple[str, ...] = (),
    quantized: Model | None = None,
    **options: object,
) -> EngineSpec:
    """Return a spec for `ort`; the precision follows from the scheme."""
    precision = {None: "fp32", "weight-only": "int4"}.get(scheme, "int8")
    return EngineSpec(
        "ort",
        precision,
        scheme,
        model,
        quantized,
        calibration or Calibration(),
        exclude,
        tuple(sorted(options.items())),
    )


def quantized(spec: EngineSpec, batches: Batches, folder: Path) -> Path:
    """Calibrate and build `spec` in `folder`; return the engine's folder."""
    backend = get_backend("ort")
    backend.check(spec)
    ranges, engine = folder / "ranges", folder / "engine"
    ranges.mkdir(parents=True)
    engine.mkdir()
    if spec.scheme == "static":
        backend.calibrate(spec, batches, ranges)
    backend.build(spec, ranges, engine)
    return engine


@contextmanager
def engine_of(spec: EngineSpec, batches: Batches) -> Iterator[Engine]:
    """Build and open `spec`; both are gone at the end."""
    with TemporaryDirectory() as folder:
        engine = get_backend("ort").open(spec, quantized(spec, batches, Path(folder)))
        try:
            yield engine
        finally:
            engine.close()


def engine_file(folder: Path) -> Path:
    """Return the ONNX file in an engine's folder."""
    return folder / ENGINE_FILE
