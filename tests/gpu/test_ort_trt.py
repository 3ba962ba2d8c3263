"""The TensorRT provider's other ways to INT8 and to short floats, on a real GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.spec import EngineSpec
from pytest_quant.testing.conformance.examples import conv, dense
from pytest_quant.testing.conformance.workbench import build, opened, sqnr_db
from tests.gpu.usable import usable

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("precision", "scheme", "options", "min_db"),
    [
        ("fp16", None, (), 50.0),
        ("bf16", None, (), 35.0),
        ("int8", "static", (("ranges", "table"),), 20.0),
        ("int8", "static", (("beside", "fp16"),), 20.0),
    ],
)
def test_each_way_on_the_device(
    precision: str, scheme: str | None, options: tuple[tuple[str, object], ...], min_db: float, tmp_path: Path
) -> None:
    """Six decibels for each bit of the mantissa or of the weights, less what adding up costs."""
    backend = usable("ort-trt")
    example = conv()
    feeds = example.feeds(8, 1)
    spec = EngineSpec("ort-trt", precision, scheme, example.write(tmp_path), options=options)
    with opened(backend, spec, example) as engine:
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > min_db
        assert engine.provider in engine.coverage(feeds).provider


def test_other_weights_are_another_engine(tmp_path: Path) -> None:
    """The provider keys engines by names only; each of ours lies in a folder of its own, so no old one is reused."""
    backend = usable("ort-trt")
    for scale in (1.0, 20.0):
        example = dense(scale=scale)
        feeds = example.feeds(4, 2)
        spec = EngineSpec("ort-trt", "fp32", None, example.write(tmp_path))
        with opened(backend, spec, example) as engine:
            assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 40


def test_engines_are_built_in_build_and_nothing_is_written_afterwards(tmp_path: Path) -> None:
    """Opening and running leave every file of the entry as it was, and no note tells of another build."""
    backend = usable("ort-trt")
    example = conv()
    spec = EngineSpec("ort-trt", "int8", "static", example.write(tmp_path))
    folder = build(backend, spec, example, tmp_path)
    before = {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert [name for name in before if name.endswith(".engine")]
    with backend.open(spec, folder) as engine:
        engine.run(example.feeds(8, 1))
        assert not [note for note in engine.notes if "anew" in note]
        ran = engine.coverage(example.feeds(8, 1))
    assert {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    assert ran.pct == 100.0 or (ran.pct is None and ran.notes), ran
