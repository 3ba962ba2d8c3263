"""The simulation rounds and overflows as floats of sixteen bits do: held against numpy, node by node."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from pytest_quant.backends import get_backend
from pytest_quant.backends.ort.half import range_notes, write_half, write_rounded
from pytest_quant.backends.ort.session import open_session
from pytest_quant.spec import EngineSpec, Model
from pytest_quant.testing.conformance.examples import sqnr_db
from tests.support.half_by_numpy import run_in_half
from tests.support.half_networks import (
    BESIDE,
    NETWORKS,
    Network,
    encoder,
    overflowing,
    perceptron,
    residual,
    scaled,
)
from tests.support.measuring import numbers
from tests.support.models import parsed, run_unoptimized

pytestmark = pytest.mark.filterwarnings("ignore:.*(invalid value|overflow|truncated).*")

Arrays = dict[str, NDArray[Any]]


def simulated(model: Path, feeds: Arrays) -> tuple[Arrays, tuple[str, ...]]:
    """Return the outputs of a model of sixteen bits as the simulation computes them, and its notes on the range."""
    rounded = model.parent / "rounded.onnx"
    _, watched = write_rounded(model, rounded)
    session, _ = open_session(rounded, threads=1, simulates=True)
    ran = session.run(None, feeds)
    own = len(ran) - 2 * len(watched)
    names = [output.name for output in session.get_outputs()[:own]]
    return dict(zip(names, ran, strict=False)), tuple(range_notes(watched, [float(each) for each in ran[own:]]))


def in_half(folder: Path, network: Network, kind: str = "fp16") -> tuple[Path, Arrays]:
    """Write the model in float32 and with sixteen bits; return the latter, and an input."""
    write_half(parsed(folder / "m.onnx", network.graph, **network.weights), folder / "half.onnx", kind)
    return folder / "half.onnx", {"x": np.float32(network.scale) * numbers(*network.shape, seed=3)}


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@pytest.mark.parametrize("network", NETWORKS)
def test_as_numpy_rounds(network: Any, kind: str, tmp_path: Path) -> None:
    """Beside float32 within a decibel, and nearer to numpy than to float32 by far."""
    half, feeds = in_half(tmp_path, network(), kind)
    exact = run_unoptimized(tmp_path / "m.onnx", feeds)
    result, _ = simulated(half, feeds)
    wanted = run_in_half(half, feeds)
    assert sqnr_db(exact, result) == pytest.approx(sqnr_db(exact, wanted), abs=1.0)
    assert sqnr_db(wanted, result) > sqnr_db(exact, wanted) + 10.0


@pytest.mark.parametrize("network", BESIDE)
def test_what_float16_cannot_hold(network: Any, tmp_path: Path) -> None:
    """Infinite, 0 or coarse as in numpy, by a graph that ONNX Runtime itself computes in float32."""
    half, feeds = in_half(tmp_path, network())
    wanted = run_in_half(half, feeds)["y"]
    assert_allclose(simulated(half, feeds)[0]["y"], wanted, rtol=2.0**-11, atol=2.0**-24)
    assert not np.allclose(run_unoptimized(half, feeds)["y"], wanted, rtol=2.0**-11, atol=2.0**-24, equal_nan=True)


KINDS = {"fp16": (10, np.dtype(np.float16)), "bf16": (16, np.dtype(ml_dtypes.bfloat16))}


def round_trips(folder: Path, kind: str) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """Return the simulation of a graph that casts to sixteen bits and back."""
    code, _ = KINDS[kind]
    path = parsed(
        folder / f"{kind}.onnx", f"(float[n] x) => (float[n] y) {{ h = Cast<to = {code}>(x) y = Cast<to = 1>(h) }}"
    )
    return lambda values: simulated(path, {"x": values})[0]["y"]


def assert_same_bits(values: NDArray[np.float32], result: NDArray[np.float32], kind: str) -> None:
    """Each of `result` is numpy's rounding of `values`, the sign of a zero included; NaN is NaN."""
    wanted = values.astype(KINDS[kind][1]).astype(np.float32)
    assert_array_equal(np.isnan(result), np.isnan(wanted))
    known = ~np.isnan(wanted)
    assert_array_equal(result[known].view(np.uint32), wanted[known].view(np.uint32))


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_sixteen_bits_and_what_is_next_to_it(kind: str, tmp_path: Path) -> None:
    """And every tie between two neighbours, and float32 next to ties: subnormals, overflow, infinities, NaN."""
    held = np.arange(2**16, dtype=np.uint16).view(KINDS[kind][1]).astype(np.float32)
    steps = np.sort(held[np.isfinite(held)])
    ties = np.append((steps[1:].astype(np.float64) + steps[:-1]) / 2, [65520.0, -65520.0]).astype(np.float32)
    beside = [np.nextafter(each, np.float32(end)) for each in (held, ties) for end in (np.inf, -np.inf)]
    values = np.concatenate([held, ties, *beside])
    assert_same_bits(values, round_trips(tmp_path, kind)(values), kind)


@pytest.mark.parametrize("kind", KINDS)
def test_any_float32(kind: str, tmp_path: Path) -> None:
    """By its bits, so that all exponents are as likely."""
    run = round_trips(tmp_path, kind)

    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=64))
    def rounds(bits: list[int]) -> None:
        values = np.array(bits, np.uint32).view(np.float32)
        assert_same_bits(values, run(values), kind)

    rounds()


def test_the_first_result_beyond_the_range_is_named(tmp_path: Path) -> None:
    """With its largest value, and how many of one run are beyond: those of the squares, by numpy."""
    half, feeds = in_half(tmp_path, overflowing())
    x = feeds["x"].astype(np.float16)
    squares = (x - x.mean(-1, keepdims=True, dtype=np.float32).astype(np.float16)).astype(np.float32) ** 2
    wanted = f"{squares.max():.4g}, {np.sum(squares > 65504)} values of one run are beyond"
    assert simulated(half, feeds)[1] == (f"float16 ends at 65504: Pow 'q' reaches {wanted}",)


def test_the_upper_half_of_the_range_is_named(tmp_path: Path) -> None:
    """Another input may be beyond it."""
    half, feeds = in_half(tmp_path, scaled(49152.0))
    assert simulated(half, {"x": np.ones_like(feeds["x"])})[1] == (
        "float16 ends at 65504, and Mul 'a' reaches 4.915e+04",
    )
    assert simulated(half, {"x": np.full_like(feeds["x"], 0.6)})[1] == ()


@pytest.mark.parametrize("network", [perceptron, encoder, residual])
def test_numbers_far_from_the_end_are_not_mentioned(network: Any, tmp_path: Path) -> None:
    """Nor is a mask, whose numbers are as low as there are."""
    assert simulated(*in_half(tmp_path, network()))[1] == ()


def test_float32_is_left_alone(tmp_path: Path) -> None:
    """Nothing is written, so that a float simulation runs the file that was built."""
    model = parsed(tmp_path / "m.onnx", perceptron().graph, **perceptron().weights)
    assert write_rounded(model, tmp_path / "rounded.onnx") == (model, ())
    assert not (tmp_path / "rounded.onnx").exists()


def test_no_result_waits_for_its_figures(tmp_path: Path) -> None:
    """ONNX Runtime finds them before it goes on: for a deep network it would need memory for all results otherwise."""
    half, feeds = in_half(tmp_path, perceptron())
    write_rounded(half, tmp_path / "rounded.onnx")
    session, _ = open_session(tmp_path / "rounded.onnx", threads=1, simulates=True, profile=tmp_path)
    session.run(None, feeds)
    events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    ran = [event["args"]["op_name"] for event in events if event["name"].endswith("kernel_time")]
    products = [place for place, name in enumerate(ran) if name == "MatMul"]
    figures = [ran[:place].count("ReduceMax") for place in products]
    assert (len(products), figures) == (12, [3 * before for before in range(12)])


def test_inputs_and_outputs_of_float16(tmp_path: Path) -> None:
    """Stay so; a body that reads an input reads it rounded."""
    graph = """(float16[n, 4] x, bool yes) => (float16[n, 4] y, float16[n, 4] z) {
        y = Mul(x, x)
        z = If(yes)<then_branch = a () => (float16[n, 4] t) { t = Add(x, y) },
            else_branch = b () => (float16[n, 4] e) { e = Identity(y) }> }"""
    model = parsed(tmp_path / "m.onnx", graph)
    feeds = {"x": numbers(3, 4).astype(np.float16), "yes": np.array(True)}
    result, _ = simulated(model, feeds)
    wanted = run_in_half(model, feeds)
    assert {name: array.dtype for name, array in result.items()} == {"y": np.float16, "z": np.float16}
    assert all(np.array_equal(result[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@pytest.mark.parametrize("scheme", [None, "static"])
def test_an_engine_of_the_real_builder(scheme: str | None, kind: str, tmp_path: Path) -> None:
    """Whole, or beside INT8: zeros for what float16 cannot square, and a note; bfloat16 can."""
    network = overflowing()
    model = parsed(tmp_path / "m.onnx", network.graph, **network.weights)
    feeds = {"x": np.float32(network.scale) * numbers(*network.shape, seed=3)}
    options: tuple[tuple[str, object], ...] = (("beside", kind), ("compute_capability", "SM89"))
    spec = EngineSpec("trt-rtx", "int8" if scheme else kind, scheme, Model.from_onnx(model), options=options)
    spec = replace(spec, options=options if scheme else options[1:])
    backend = get_backend("trt-rtx")
    ranges, folder = tmp_path / "ranges", tmp_path / "engine"
    for each in (ranges, folder):
        each.mkdir()
    if scheme:
        backend.calibrate(spec, lambda: iter([feeds]), ranges)
    backend.build(spec, ranges if scheme else None, folder)
    with backend.open(spec, folder) as engine:
        result = engine.run(feeds)["y"]
        far = [note for note in engine.notes if note.startswith("float16 ends at 65504: Pow")]
    is_zero = np.all(np.abs(result) < 1e-6, axis=-1)
    assert (is_zero.all(), len(far)) == (kind == "fp16", kind == "fp16")
