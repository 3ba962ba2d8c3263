"""What can be evaluated on workers, and what a worker opens from files that it was sent. No worker is started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.backends import Backend, Offer
from pytest_quant.measure.batching import OpenEngine
from pytest_quant.measure.build import BuiltEngine
from pytest_quant.measure.workers import Workers, _move_files
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing import NumpyBackend
from tests.support.measuring import QuietSteps, leading
from tests.unit.measure.played import inputs, played


def opened_of(model: Model, quantized: Model | None = None, **facts: Any) -> OpenEngine:
    """Return an open engine of these models; `facts` are those of its backend."""
    backend: Backend = NumpyBackend()
    for name, value in facts.items():
        setattr(backend, name, value)
    opened = leading(played(lambda feeds: {"y": feeds["x"]}, inputs(x=(None, 2)))[1], 4)
    spec = EngineSpec("played", "int8", "static", model, quantized=quantized)
    return replace(opened, built=BuiltEngine(spec, backend, Path("engine"), "key", "built", "", None, None, None))


FILE = Model("net", path=Path("net.onnx"))
MODULE = Model("net", module=object())


@pytest.mark.parametrize(
    ("place", "opened", "why"),
    [
        ("local:2", opened_of(FILE, offer=Offer({}, reads="callable")), "no other process has the function"),
        ("local:2", opened_of(MODULE), "no other process has the torch module"),
        ("local:2", opened_of(FILE, MODULE), "no other process has the torch module"),
        ("local:2", opened_of(FILE, device="cuda:0"), "workers of this machine would share cuda:0"),
        ("local:2", opened_of(FILE, held=lambda: None), "it cannot be sent to another process"),
    ],
    ids=["function", "module", "quantized module", "gpu", "backend"],
)
def test_what_cannot_be_elsewhere_runs_here_and_says_so(place: str, opened: OpenEngine, why: str) -> None:
    """The note is of the engine, and in its record."""
    taken = Workers(place, QuietSteps()).take_engine(opened)
    assert taken.workers is None
    (note,) = taken.notes
    assert note.startswith(f"played-int8-static is evaluated in this process alone: {why}")


@pytest.mark.parametrize(
    ("place", "opened"),
    [
        ("local:2", opened_of(FILE)),
        ("local:2", opened_of(replace(FILE, state=(("h", "h"),)))),
        ("tcp://host:8786", opened_of(FILE, device="cuda:0")),
    ],
    ids=["file", "sequences", "gpus of others"],
)
def test_all_else_is_taken(place: str, opened: OpenEngine) -> None:
    """A model with a state too: it begins anew with each batch."""
    workers = Workers(place, QuietSteps())
    assert workers.take_engine(opened) == replace(opened, workers=workers)


def test_files_that_were_sent_lie_as_they_did(tmp_path: Path) -> None:
    """Below a folder of the worker: those of the engine, of both models, and what lies beside them."""
    here, there = tmp_path / "here", tmp_path / "there"
    names = ("engine/model.onnx", "float/net.onnx", "float/net.onnx.data", "int8/net.onnx")
    sent = {here / name: name.encode() for name in names}
    built = replace(
        opened_of(Model("net", path=here / "float/net.onnx"), Model("net", path=here / "int8/net.onnx")).built,
        folder=here / "engine",
    )
    moved = _move_files(built, sent, there)
    assert moved.spec.quantized is not None
    assert moved.spec.model.path is not None
    assert moved.spec.quantized.path is not None
    assert (moved.folder / "model.onnx").read_bytes() == b"engine/model.onnx"
    assert moved.spec.model.path.with_name("net.onnx.data").read_bytes() == b"float/net.onnx.data"
    assert moved.spec.quantized.path.read_bytes() == b"int8/net.onnx"
    assert all(path.is_relative_to(there) for path in (moved.folder, moved.spec.model.path, moved.spec.quantized.path))


def test_an_engine_without_files_has_its_folder_there(tmp_path: Path) -> None:
    """A backend may read that it is empty."""
    built = replace(opened_of(Model("net")).built, folder=tmp_path / "here")
    assert _move_files(built, {}, tmp_path / "there").folder.is_dir()
