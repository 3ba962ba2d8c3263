"""Networks as they are deployed, built by TensorRT-RTX and simulated, which is no evidence of TensorRT itself."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import Feeds
from pytest_quant.backends.trt.build import LOG_FILE
from pytest_quant.environment.gpu import find_gpus
from pytest_quant.plugin.collect import simulate_check
from pytest_quant.record import Record
from pytest_quant.result import Status
from pytest_quant.spec import Dataset, Limits
from tests.integration.projects import run_project
from tests.integration.trt_traps.networks import check_of, images, recognizer, save_network, session_in

_WIDE, _HEADS, _FEATURES = 32, 4, 5
"""Width of the encoder, its heads, and numbers of a detected place: four of the box and one of the class."""


def yolo(folder: Path) -> Path:
    """Free height and width, three resolutions, a map scaled up to the sizes of another, all places in one output.

    Sizes are read from the graph by Shape, so that they are shape tensors inside it, and one counts the anchors, whose
    coordinates are floats.
    """
    graph = f"""(float[n, 3, h, w] images) => (float[n, {_FEATURES}, k] boxes)
        <int64[3] flat = {{0, {_FEATURES}, -1}}, int64 last = {{3}}, float zero = {{0}}, float one = {{1}},
        float step = {{0.01}}> {{
        {_convolution("stem", "images", 3, 2)}
        {_convolution("fine", "stem_out", 3, 2)}
        {_convolution("coarse", "fine_out", 3, 2)}
        [pool] pooled = MaxPool<kernel_shape = [5, 5], pads = [2, 2, 2, 2]>(coarse_out)
        [pyramid] pyramid = Concat<axis = 1>(coarse_out, pooled)
        {_convolution("narrow", "pyramid", 1, 1)}
        [fine_sizes] fine_sizes = Shape(fine_out)
        [up] up = Resize<mode = "nearest">(narrow_out, , , fine_sizes)
        [both] both = Concat<axis = 1>(up, fine_out)
        {_convolution("mixed", "both", 3, 1)}
        [fine_head] fine_map = Conv<kernel_shape = [1, 1]>(mixed_out, fine_head_w)
        [columns] columns = Gather(fine_sizes, last)
        [count] count = Cast<to = 1>(columns)
        [anchors] anchors = Range(zero, count, one)
        [spread] spread = Mul(anchors, step)
        [placed] placed = Add(fine_map, spread)
        [fine_places] fine_places = Reshape(placed, flat)
        [coarse_head] coarse_map = Conv<kernel_shape = [1, 1]>(narrow_out, coarse_head_w)
        [coarse_places] coarse_places = Reshape(coarse_map, flat)
        [places] raw = Concat<axis = 2>(fine_places, coarse_places)
        [squash] boxes = Sigmoid(raw) }}"""
    weights = {
        "stem_w": (16, 3, 3, 3), "fine_w": (16, 16, 3, 3), "coarse_w": (16, 16, 3, 3), "narrow_w": (16, 32, 1, 1),
        "mixed_w": (16, 32, 3, 3), "fine_head_w": (_FEATURES, 16, 1, 1), "coarse_head_w": (_FEATURES, 16, 1, 1),
    }  # fmt: skip
    return save_network(folder / "yolo.onnx", graph, weights)


def bert(folder: Path) -> Path:
    """Ids and mask of free length, positions cut to it, one block of attention and one of two products, a mean.

    The positions are a Slice whose end is a size of the input: a shape tensor inside the graph.
    """
    graph = f"""(int64[n, t] ids, int64[n, t] mask) => (float[n, 3] logits)
        <int64[1] zero = {{0}}, int64[2] middle = {{1, 2}}, float one = {{1}}, float far = {{10000}},
        int64[4] split = {{0, 0, {_HEADS}, {_WIDE // _HEADS}}}, int64[3] joined = {{0, 0, {_WIDE}}}> {{
        [words] a = Gather(words, ids)
        [length] length = Shape<start = 1>(ids)
        [places] p = Slice(places, zero, length, zero)
        [embedded] x = Add(a, p)
        {" ".join(map(_split, ("query", "key", "value")))}
        [key_turned] key_turned = Transpose<perm = [0, 1, 3, 2]>(key_heads)
        [scores] scores = MatMul(query_heads, key_turned)
        [mask] m = Cast<to = 1>(mask)
        [mask4] m4 = Unsqueeze(m, middle)
        [less] less = Sub(m4, one)
        [away] away = Mul(less, far)
        [masked] masked = Add(scores, away)
        [attention] attention = Softmax<axis = -1>(masked)
        [context] context = MatMul(attention, value_heads)
        [context_turned] context_turned = Transpose<perm = [0, 2, 1, 3]>(context)
        [joined] c = Reshape(context_turned, joined)
        [out] o = MatMul(c, out_w)
        [rest1] y = Add(x, o)
        [up] u = MatMul(y, up_w)
        [relu] r = Relu(u)
        [down] d = MatMul(r, down_w)
        [rest2] z = Add(y, d)
        [mean] mean = ReduceMean<axes = [1], keepdims = 0>(z)
        [class] logits = MatMul(mean, class_w) }}"""
    square = (_WIDE, _WIDE)
    weights = {
        "words": (100, _WIDE), "places": (64, _WIDE), "query_w": square, "key_w": square, "value_w": square,
        "out_w": square, "up_w": (_WIDE, 4 * _WIDE), "down_w": (4 * _WIDE, _WIDE), "class_w": (_WIDE, 3),
    }  # fmt: skip
    return save_network(folder / "bert.onnx", graph, weights)


def sentences(lengths: tuple[int, ...], seed: int = 0) -> list[Feeds]:
    """One sentence of each length, none of it masked."""
    rng = np.random.default_rng(seed)
    return [{"ids": rng.integers(0, 100, length), "mask": np.ones(length, np.int64)} for length in lengths]


def _convolution(name: str, source: str, kernel: int, stride: int) -> str:
    shape = f"kernel_shape = [{kernel}, {kernel}], strides = [{stride}, {stride}], pads = {[kernel // 2] * 4}"
    return f"[{name}] {name}_sum = Conv<{shape}>({source}, {name}_w) [{name}_relu] {name}_out = Relu({name}_sum)"


def _split(name: str) -> str:
    return f"""[{name}] {name}_all = MatMul(x, {name}_w)
        [{name}_parted] {name}_parted = Reshape({name}_all, split)
        [{name}_heads] {name}_heads = Transpose<perm = [0, 2, 1, 3]>({name}_parted)"""


PICTURES = ((64, 64),) * 3 + ((96, 32), (160, 128))
"""Height and width: three alike, one narrow, one large."""

LENGTHS = (9, 9, 9, 3, 40)

CONFTEST = """
import pytest
from pathlib import Path
from pytest_quant import Dataset
from tests.integration.trt_traps.test_deployed import bert, sentences, yolo
from tests.integration.trt_traps.networks import images

@pytest.fixture
def detector():
    return str(yolo(Path(__file__).parent))

@pytest.fixture
def pictures():
    return Dataset.from_iterable(images({pictures}), calibration=images(((64, 64),) * 4, seed=1))

@pytest.fixture
def encoder():
    return str(bert(Path(__file__).parent))

@pytest.fixture
def texts():
    return Dataset.from_iterable(sentences({lengths}), calibration=sentences((9,) * 8, seed=1))
"""

TESTS = """
import pytest

RTX = dict(backend="trt-rtx", options={"compute_capability": "SM89"}, batch_size=4, min_coverage=99)

@pytest.mark.quant(model="detector", data="pictures", min_sqnr_db=20, **RTX)
def test_detector():
    pass

@pytest.mark.quant(model="encoder", data="texts", min_sqnr_db=60, **RTX)
def test_encoder():
    pass
"""


def built_for(folder: Path) -> set[tuple[str, str, str, str]]:
    """Return input, smallest, usual and largest shape of the engines in a cache, as the builder itself logged them."""
    line = re.compile(r"Name: (\w+), IOMode: Input,.*MinShape: (\S+), OptShape: (\S+), MaxShape: (\S+), Format")
    logs = list(folder.glob(f"engine/*/files/{LOG_FILE}"))
    assert len(logs) == 2, "the engine and the reference"
    first, second = ({match.groups() for match in line.finditer(file.read_text("utf-8"))} for file in logs)
    assert first == second
    return first  # type: ignore[return-value] # four groups


def test_a_detector_is_built_for_the_pictures(tmp_path: Path) -> None:
    """Each axis from its smallest to its largest, tuned for the commonest picture in the batch that is timed."""
    dataset = Dataset.from_iterable(images(PICTURES), calibration=images(((64, 64),) * 4, seed=1))
    with session_in(tmp_path) as session:
        result = session.measure_engines(check_of(yolo(tmp_path), dataset))
    assert built_for(tmp_path / "cache") == {("images", "[1,3,64,32]", "[4,3,64,64]", "[5,3,160,128]")}
    assert (result.coverage.pct, result.coverage.unit, result.coverage.opaque_nodes) == (100.0, "MACs", 0)
    assert "built for (1, 3, 64, 32) to (5, 3, 160, 128) of 'images', usually (4, 3, 64, 64)" in result.engine.notes
    assert result.accuracy.simulated
    result.close()


def test_what_a_user_sees(pytester: pytest.Pytester) -> None:
    """INT8 coverage and simulated accuracy of both in the table; the shapes where a limit is broken."""
    pytester.makeconftest(CONFTEST.format(pictures=PICTURES, lengths=LENGTHS))
    pytester.makepyfile(test_models=TESTS)
    result, checks = run_project(pytester, "--quant-diagnose-time=0")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "test_detector *simulated * 100.00 * PASS",
            "test_encoder *simulated * 100.00 * FAIL",
            "SIMULATED: 2 checks judged by float simulation; nothing of them ran on the device",
        ]
    )
    result.stdout.fnmatch_lines("*built for (1, 3) to (5, 40) of 'ids', usually (4, 9)")
    assert {check["coverage"]["provider"] for check in checks} == {"TensorRT-RTX for SM89, simulated in float"}


LIMITS = Limits(max_size_mb=1e6, max_build_s=1e6, min_coverage=50.0, min_sqnr_db=0.0)
REASON = "plan of another product (TensorRT-RTX)"


def record_of(backend: str, folder: Path, *, exclude: tuple[str, ...] = ()) -> Record:
    """Check a small network in `backend` with limits that any plan would keep."""
    if find_gpus():
        pytest.skip("there is a GPU here, which runs what it builds")
    lines = images(((32, 64), (32, 40)), channels=1)
    dataset = Dataset.from_iterable(lines, calibration=images(((32, 64),), channels=1, seed=1))
    check = replace(check_of(recognizer(folder), dataset, backend=backend), limits=LIMITS)
    with session_in(folder) as session:
        measured = session.measure_engines(replace(check, candidate=replace(check.candidate, exclude=exclude)))
        record = session.judge(measured).record
    measured.close()
    return record


@pytest.mark.parametrize("backend", ["trt", "ort-trt"])
def test_nothing_of_the_other_plan_is_measured(backend: str, tmp_path: Path) -> None:
    """Size and build time are null and their limits INCONCLUSIVE, coverage is labelled and not judged; accuracy is."""
    record = record_of(backend, tmp_path)
    assert record.resources is not None
    for name in ("size_mb", "reference_size_mb", "build_s", "build_memory_mb"):
        assert getattr(record.resources, name) is None
    assert record.resources.plan_of == "TensorRT-RTX"
    verdicts = {verdict.limit: verdict for verdict in record.verdicts or ()}
    for limit in ("max_size_mb", "max_build_s", "min_coverage"):
        assert verdicts[limit].status is Status.INCONCLUSIVE
        assert verdicts[limit].observed is None
        assert REASON in verdicts[limit].reason
    assert verdicts["min_sqnr_db"].status is Status.PASS
    assert record.coverage is not None
    assert (record.coverage.pct, record.coverage.plan_of) == (100.0, "TensorRT-RTX")
    assert "in the place of" in record.coverage.provider


def test_its_own_plan_is_judged(tmp_path: Path) -> None:
    """For trt-rtx size, build time and coverage are those of the product that was asked for."""
    record = record_of("trt-rtx", tmp_path)
    assert record.resources is not None
    assert record.resources.size_mb is not None
    assert record.resources.build_s is not None
    assert {verdict.status for verdict in record.verdicts or ()} == {Status.PASS}


def test_a_graph_without_pairs_fails_in_every_product(tmp_path: Path) -> None:
    """Explicit INT8 runs where there are Q/DQ pairs and nowhere else: known of the graph, whatever builds it."""
    record = record_of("trt", tmp_path, exclude=("stem", "head"))
    (coverage,) = [verdict for verdict in record.verdicts or () if verdict.limit == "min_coverage"]
    assert coverage.status is Status.FAIL


def test_the_target_of_the_run_serves_trt_rtx(tmp_path: Path) -> None:
    """``--quant-simulate=SM89`` does what the option in the mark does."""
    if find_gpus():
        pytest.skip("there is a GPU here, which it builds for")
    dataset = Dataset.from_iterable(images(((32, 64),), channels=1))
    original = check_of(recognizer(tmp_path), dataset, scheme=None)
    engine = replace(original.candidate, options=())
    check = simulate_check(replace(original, candidate=engine, reference=engine), "SM89")
    with session_in(tmp_path) as session:
        measured = session.measure_engines(check)
    assert "SM89" in measured.coverage.provider
    assert np.isfinite(measured.engine.size_bytes)
    measured.close()
