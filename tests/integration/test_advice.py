"""Advice is followed on real engines: what a hint says to paste brings the limit's figure to what the hint says."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_quant.backends import get_backend
from pytest_quant.cache import Cache
from pytest_quant.diagnose import trials
from pytest_quant.spec import EngineSpec, Model
from tests.integration.projects import output, run_marks, run_project
from tests.support import layouts, models

WIDTH, CLASSES = 16, 4
Floats = NDArray[np.float32]


def one_large_channel(path: Path) -> None:
    """Write four dense layers ``fc1`` to ``fc4``; between the second and third, one channel is a thousand times larger.

    The third layer has no weight for that channel, so in float it does nothing. Eight bits over its range are too
    coarse for the other channels: ``fc2``, which gives the tensor, and ``fc3``, which takes it, must stay in float.
    """
    rng = np.random.default_rng(0)
    weights = {f"w{i}": _normal(rng, WIDTH, WIDTH) for i in (1, 2, 3)} | {"w4": _normal(rng, WIDTH, CLASSES)}
    weights["w2"][:, 0] *= 1000.0
    weights["w3"][0, :] = 0.0
    graph = f"""(float[n, {WIDTH}] x) => (float[n, {CLASSES}] m4) {{
        [fc1] m1 = MatMul(x, w1) [relu1] h1 = Relu(m1)
        [fc2] m2 = MatMul(h1, w2) [relu2] h2 = Relu(m2)
        [fc3] m3 = MatMul(h2, w3) [relu3] h3 = Relu(m3)
        [fc4] m4 = MatMul(h3, w4)
    }}"""
    models.parsed(path, graph, **weights)


def two_layers(path: Path) -> None:
    """Write two dense layers that lose little in int8 when they are calibrated well."""
    rng = np.random.default_rng(3)
    graph = f"""(float[n, {WIDTH}] x) => (float[n, {CLASSES}] y) {{
        [fc1] m = MatMul(x, w1) [relu] h = Relu(m) [fc2] y = MatMul(h, w2)
    }}"""
    models.parsed(path, graph, w1=_normal(rng, WIDTH, WIDTH), w2=_normal(rng, WIDTH, CLASSES))


def two_heads(path: Path) -> None:
    """Write two outputs that share no node: one scale for all weights is too coarse for ``box2``, which gives boxes."""
    rng = np.random.default_rng(6)
    weights = {f"w{i}": _normal(rng, WIDTH, WIDTH) for i in (1, 2, 3, 4)}
    weights["w2"][:, 0] *= 1000.0
    graph = f"""(float[n, {WIDTH}] x) => (float[n, {WIDTH}] boxes, float[n, {WIDTH}] scores) {{
        [box1] b1 = MatMul(x, w1) [box_relu] b2 = Relu(b1) [box2] boxes = MatMul(b2, w2)
        [score1] s1 = MatMul(x, w3) [score_relu] s2 = Relu(s1) [score2] scores = MatMul(s2, w4)
    }}"""
    models.parsed(path, graph, **weights)


def dead_channel(path: Path) -> None:
    """Write a depthwise convolution one of whose kernels is a thousand times the others and never gets past the ReLU.

    With one scale for all weights the other kernels round to nothing; with one for each channel they do not.
    """
    rng = np.random.default_rng(1)
    depthwise, bias = _normal(rng, 8, 1, 3, 3), np.zeros(8, np.float32)
    depthwise[0] *= 1000.0
    bias[0] = -1e5
    graph = f"""(float[n, 8, 6, 6] x) => (float[n, {CLASSES}] y) {{
        [depthwise] a = Conv<group = 8, kernel_shape = [3, 3]>(x, d, b) [relu] r = Relu(a)
        [pointwise] q = Conv<kernel_shape = [1, 1]>(r, p) [pool] g = GlobalAveragePool(q) [flatten] y = Flatten(g)
    }}"""
    models.parsed(path, graph, d=depthwise, b=bias, p=_normal(rng, CLASSES, 8, 1, 1))


def recurrent(path: Path) -> None:
    """Write an LSTM over six steps of eight values; the class is read from its last state."""
    rng = np.random.default_rng(2)
    w, r, out = _normal(rng, 1, 4 * WIDTH, 8), _normal(rng, 1, 4 * WIDTH, WIDTH), _normal(rng, WIDTH, CLASSES)
    graph = f"""(float[n, 6, 8] x) => (float[n, {CLASSES}] y) <int64[1] axes = {{0}}> {{
        [time_first] t = Transpose<perm = [1, 0, 2]>(x) [lstm] all, last = LSTM<hidden_size = {WIDTH}>(t, w, r)
        [squeeze] s = Squeeze(last, axes) [head] y = MatMul(s, out)
    }}"""
    models.parsed(path, graph, w=w, r=r, out=out)


def embedding(path: Path) -> None:
    """Write a table of 256 words, the mean of a text's words and two layers; a shape is worked out by a Gather.

    In float the table takes 65.5 kB and the first layer 16.4.
    """
    rng = np.random.default_rng(4)
    table, middle, out = _normal(rng, 256, 64), _normal(rng, 64, 64), _normal(rng, 64, CLASSES)
    sizes, first = np.array([CLASSES, -1], np.int64), np.array([1, 0], np.int64)
    graph = f"""(int64[n, t] ids) => (float[n, {CLASSES}] y) {{
        [embed] e = Gather(table, ids) [mean] m = ReduceMean<axes = [1], keepdims = 0>(e)
        [middle] h = MatMul(m, middle) [fc] z = MatMul(h, out)
        [size] s = Gather(sizes, first) [shape] y = Reshape(z, s)
    }}"""
    models.parsed(path, graph, table=table, middle=middle, out=out, sizes=sizes, first=first)


def calibrated_on(scale: float, model: Path, target: Path) -> None:
    """Write `model` as another tool quantizes it whose inputs were `scale` times as large as those of the data."""
    x = scale * np.random.default_rng(5).normal(size=(200, WIDTH)).astype(np.float32)
    spec, backend = EngineSpec("ort", "int8", "static", Model.from_onnx(model)), get_backend("ort")
    with TemporaryDirectory() as ranges, TemporaryDirectory() as folder:
        backend.calibrate(spec, lambda: iter([{"x": x}]), Path(ranges))
        backend.build(spec, Path(ranges), Path(folder))
        shutil.copyfile(Path(folder) / "model.onnx", target)


def _normal(rng: np.random.Generator, *shape: int) -> Floats:
    fan_in = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
    values: Floats = (rng.normal(size=shape) / np.sqrt(fan_in)).astype(np.float32)
    return values


CONFTEST = """
import numpy as np
import pytest
from pathlib import Path
from pytest_quant import Dataset, Model


def _data(shape, outlier=0.0, calibration=200):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(200, *shape)).astype(np.float32)
    calibration = rng.normal(size=(calibration, *shape)).astype(np.float32)
    if outlier:
        calibration[7, 3] = outlier
    return Dataset.from_arrays(x, None, calibration)


@pytest.fixture
def flat():
    return _data((16,))


@pytest.fixture
def with_an_outlier():
    return _data((16,), outlier=60.0)


@pytest.fixture
def few():
    return _data((16,), calibration=24)


@pytest.fixture
def maps():
    return _data((8, 6, 6))


@pytest.fixture
def steps():
    return _data((6, 8))


@pytest.fixture
def texts():
    ids = np.random.default_rng(5).integers(0, 256, size=(220, 6))
    return Dataset.from_arrays({"ids": ids[:200]}, None, {"ids": ids[200:]})


@pytest.fixture
def remembering():
    return Model.from_onnx(Path(__file__).parent / "state.onnx", state={"h_out": "h_in"})
"""

ORT = {
    "large_channel": "model='large.onnx', data='flat', min_agreement=97, min_coverage=30",
    "one_scale": "model='dead.onnx', data='maps', min_sqnr_db=25, options={'per_channel': False}",
    "outlier": "model='plain.onnx', data='with_an_outlier', min_sqnr_db=25",
    "few_samples": "model='plain.onnx', data='flat', min_sqnr_db=30, calibration={'samples': 1}",
    "recurrent": "model='lstm.onnx', data='steps', min_coverage=50",
    "state": "model='remembering', data='steps', min_sqnr_db=40, calibration={'samples': 1}",
    "table": "model='words.onnx', data='texts', max_size_mb=0.03",
    "table_in_int4": "model='words.onnx', data='texts', max_size_mb=0.03, precision='int4', scheme='weight-only'",
    "given": "model='plain.onnx', data='flat', min_sqnr_db=25, quantized='narrow.onnx'",
    "excluded": "model='words.onnx', data='texts', max_size_mb=0.075, min_coverage=1, exclude=['middle']",
}
"""By the cause of the loss, the keys of a mark whose check fails for it."""

OPENVINO = {
    "large_channel": "backend='openvino', model='large.onnx', data='few', min_agreement=97, min_coverage=30",
}


def _run(pytester: pytest.Pytester, marks: dict[str, str], *args: str) -> dict[str, dict[str, Any]]:
    """Run one test for each mark and return the checks by the name of the mark."""
    tests = "".join(f"@pytest.mark.quant({mark})\ndef test_{name}():\n    pass\n\n\n" for name, mark in marks.items())
    pytester.makepyfile(test_it=f"import pytest\n\n\n{tests}")
    result, checks = run_project(pytester, *args)
    assert len(checks) == len(marks), output(result)
    return {check["nodeid"].partition("::test_")[2].partition("[")[0]: check for check in checks}


def _models(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    one_large_channel(Path("large.onnx"))
    two_layers(Path("plain.onnx"))
    dead_channel(Path("dead.onnx"))
    recurrent(Path("lstm.onnx"))
    embedding(Path("words.onnx"))
    calibrated_on(0.05, Path("plain.onnx"), Path("narrow.onnx"))
    layouts.accumulator(Path("state.onnx"))


def _observed(check: dict[str, Any], limit: str) -> float:
    """Return the limit's figure; a check whose outputs can all be compared has no verdict on them."""
    result: float = next((each["observed"] for each in check["verdicts"] if each["limit"] == limit), 0.0)
    return result


def _pasted(mark: str, paste: str) -> str:
    """Return the mark with the key of `paste`, its first, in the place of the one it has at its end."""
    key = paste.partition("=")[0]
    beginning = mark.partition(f", {key}=")[0] if key in ("options", "calibration", "exclude", "quantized") else mark
    return f"{beginning}, {paste}"


def _follow(pytester: pytest.Pytester, marks: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    """Run the marks, paste every hint into its mark, run again, and compare with what the hint promised."""
    _models(pytester)
    before = _run(pytester, marks, "--quant-diagnose-time=120")
    hints = {name: [hint for hint in check["hints"] if hint["limit"]] for name, check in before.items()}
    followed = {
        f"{name}_{i}": _pasted(marks[name], hint["paste"])
        for name, result in hints.items()
        for i, hint in enumerate(result)
    }
    after = _run(pytester, followed, "--quant-diagnose-time=0")
    for name, result in hints.items():
        for i, hint in enumerate(result):
            check, limit = after[f"{name}_{i}"], hint["limit"]
            assert hint["paste"] not in marks[name]
            assert "on all 200 samples" in hint["text"]
            assert _observed(before[name], limit) == pytest.approx(hint["before"])
            assert _observed(check, limit) == pytest.approx(hint["after"] or 0.0, rel=1e-4), hint
            change = _observed(check, limit) - _observed(before[name], limit)
            assert (change > 0) is limit.startswith("min_"), hint
            assert change, hint
    return hints


def test_hints_of_ort_are_worth_following(pytester: pytest.Pytester) -> None:
    """The best hint names the planted cause, and each gives the figure that it promises."""
    result = _follow(pytester, ORT)
    assert result["large_channel"][0]["paste"] == "exclude=['fc2', 'fc3']"
    assert result["one_scale"][0]["paste"] == "options={'per_channel': True}"
    assert any(hint["paste"].startswith("calibration=") for hint in result["outlier"])
    assert "calibration={'samples': 200}" in [hint["paste"] for hint in result["few_samples"]]
    assert [hint["paste"] for hint in result["recurrent"]] == ["scheme='dynamic'"]
    assert "scheme='dynamic'" in [hint["paste"] for hint in result["state"]]
    assert "'Gather'" in result["table"][0]["paste"]
    assert "'Gather'" in result["table_in_int4"][0]["paste"]
    assert "exclude=[]" in [hint["paste"] for hint in result["excluded"]]
    schemes = {f"quantized=None, scheme='{scheme}'" for scheme in ("static", "dynamic")}
    assert {hint["paste"] for hint in result["given"]} == schemes


def test_the_cause_is_told_before_what_repairs_it(pytester: pytest.Pytester) -> None:
    """What changed since this test passed, not since another one's engine: each key of the mark, with both values."""
    _models(pytester)
    mark = "model='plain.onnx', data='flat', min_sqnr_db=25"
    kept = f"{mark}, calibration={{'method': 'percentile', 'percentile': 99.99}}"
    before_marks = {"samples": mark, "nodes": f"{mark}, exclude=['fc2']", "share": kept, "both": kept, "option": mark}
    _, before = run_marks(pytester, before_marks)
    assert {check["status"] for check in before.values()} == {"PASS"}
    marks = {
        "samples": f"{mark}, calibration={{'samples': 1}}",
        "nodes": f"{mark}, exclude=['fc1']",
        "share": f"{mark}, calibration={{'method': 'percentile', 'percentile': 51.0}}",
        "both": f"{mark}, calibration={{'method': 'percentile', 'percentile': 51, 'samples': 9}}",
        "option": f"{mark}, options={{'op_types': ['Gather']}}",
    }
    result, after = run_marks(pytester, marks)
    since = f"since the last PASS (no commit, {datetime.now(UTC):%Y}"
    causes = {
        "samples": "calibration samples 200 -> 1",
        "nodes": "exclude fc2 -> fc1",
        "share": "calibration percentile 99.99 -> 51",
        "both": "calibration percentile 99.99 -> 51; calibration samples 200 -> 9",
        "option": "op_types none -> ['Gather']",
    }
    for name, cause in causes.items():
        changed = after[name]["changed"]
        assert (after[name]["status"], changed.partition(": ")[2]) == ("FAIL", cause)
        assert changed.startswith(since)
    text = output(result).partition("test_samples ___")[2]
    places = [text.index(f"\n  {label} ") for label in ("limit", "changed", "accuracy", "try")]
    assert places == sorted(places)
    assert "engine built" not in text


def test_a_repair_that_breaks_another_limit_is_told_as_that(pytester: pytest.Pytester) -> None:
    """Without ``fc2`` and ``fc3`` 320 of 832 products are left, fewer than half; of the way back, the same is told."""
    _models(pytester)
    mark = "model='large.onnx', data='flat', min_agreement=97"
    (check,) = _run(pytester, {"it": mark}, "--quant-diagnose-time=120").values()
    (text,) = [hint["text"] for hint in check["hints"] if hint["text"].startswith("exclude=['fc2', 'fc3']: ")]
    assert ", but coverage 100.00 -> 38.46 % breaks min_coverage, on all 200 samples" in text
    (after,) = _run(pytester, {"it": f"{mark}, exclude=['fc2', 'fc3']"}, "--quant-diagnose-time=120").values()
    (back,) = [hint["text"] for hint in after["hints"] if "exclude=[]" in hint["text"]]
    assert back.startswith("exclude=[]: coverage 38.46 -> 100.00 %, but agreement ")
    assert back.endswith(" breaks min_agreement, on all 200 samples")


def test_nodes_are_ranked_by_the_output_of_the_limit_and_not_by_the_one_that_the_metric_reads(
    pytester: pytest.Pytester,
) -> None:
    """Ranked by ``scores``, of which no limit speaks, no list of nodes would have a node that boxes are made by."""
    _models(pytester)
    two_heads(Path("heads.onnx"))
    mark = "model='heads.onnx', data='flat', min_coverage=0, output='scores'"
    marks = {"db": f"{mark}, min_sqnr_db={{'boxes': 60}}", "far": f"{mark}, max_abs_error={{'boxes': 0.01}}"}
    for check in _run(pytester, marks, "--quant-diagnose-time=120").values():
        assert check["status"] == "FAIL"
        assert any(hint["paste"].startswith("exclude=['box") for hint in check["hints"]), check["hints"]


def test_hints_of_openvino_are_worth_following(pytester: pytest.Pytester) -> None:
    """The layer that takes the coarse tensor is named; entropy, which NNCF does not have, is not even tried."""
    pytest.importorskip("nncf")
    result = _follow(pytester, OPENVINO)
    assert "fc3" in result["large_channel"][0]["paste"]
    assert not any("entropy" in hint["text"] + hint["paste"] for hint in result["large_channel"])


def test_engines_that_were_tried_are_not_kept(pytester: pytest.Pytester) -> None:
    """The cache holds the two engines of the check and the candidate's ranges, and no others."""
    _models(pytester)
    (check,) = _run(pytester, {"large_channel": ORT["large_channel"]}, "--quant-diagnose-time=5").values()
    assert check["hints"]
    entries = Cache(Path(".quant/cache")).entries()
    assert sorted(entry.slot for entry in entries if entry.kind == "engine") == [
        "ort-fp32 of large",
        "ort-int8-static of large",
    ]
    assert [entry.slot for entry in entries if entry.kind == "calibration"] == ["ort-int8-static of large"]


def test_a_trial_that_breaks_takes_nothing_from_the_verdict(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime may raise what it likes while other engines are tried: the check FAILs as before, and is told of it."""

    def lost(*args: object) -> None:
        raise OSError("the device is gone")

    _models(pytester)
    monkeypatch.setattr(trials, "build_apart", lost)
    (check,) = _run(pytester, {"large_channel": ORT["large_channel"]}).values()
    assert check["status"] == "FAIL"
    assert "broke off with OSError: the device is gone" in check["hints"][0]["text"]


def test_a_file_that_quantizes_what_exclude_names_is_an_error(pytester: pytest.Pytester) -> None:
    """The set-up of the check reads it back and names the node; without ``exclude`` the same file is judged."""
    _models(pytester)
    calibrated_on(1.0, Path("plain.onnx"), Path("built.onnx"))
    mark = "model='plain.onnx', quantized='built.onnx', data='flat', min_agreement=50"
    result = _run(pytester, {"judged": mark, "refused": f"{mark}, exclude=['fc2']"}, "--quant-no-latency")
    assert (result["judged"]["status"], result["refused"]["status"]) == ("PASS", "ERROR")
    assert "quantizes what exclude names" in result["refused"]["message"]
    assert "read back in int8: fc2" in result["refused"]["message"]
