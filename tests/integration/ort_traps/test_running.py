"""Traps of ONNX Runtime's sessions: where and what it runs, and what it leaves behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from pytest_quant.backends import get_backend
from pytest_quant.backends.ort import prepare
from pytest_quant.backends.ort.session import Provider, open_session
from pytest_quant.cache import Cache
from pytest_quant.data import open_data
from pytest_quant.errors import BuildError, UsageError
from pytest_quant.measure.evaluation import evaluate
from pytest_quant.measure.outputs import pair_outputs, read_outputs, record_outputs, run_over
from pytest_quant.spec import ARRIVING, Dataset, EngineSpec, Model
from pytest_quant.testing.conformance.examples import conv, dense, sqnr_db
from tests.integration.ort_traps.bench import engine_file, engine_of, quantized, spec_of
from tests.support.measuring import leading

TENSORRT_STYLE = {
    "ActivationSymmetric": True,
    "WeightSymmetric": True,
    "AddQDQPairToWeight": True,
    "DedicatedQDQPair": True,
    "QuantizeBias": False,
    "OpTypesToExcludeOutputQuantization": ["Conv", "Gemm", "MatMul"],
}


def test_tensorrt_style_graph_runs_no_int8_on_the_cpu(tmp_path: Path) -> None:
    """Without Q after the operator nothing fuses: accurate, quantized by name, and coverage 0."""
    example = conv()
    feeds = example.feeds(8, 99)
    spec = spec_of(
        example.write(tmp_path),
        "static",
        activation_type="int8",
        op_types=["Conv", "Gemm", "MatMul"],
        extra=TENSORRT_STYLE,
    )
    with engine_of(spec, lambda: iter([example.feeds(32, 1)])) as engine:
        result = engine.coverage(feeds)
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 20
    assert result.pct == 0.0
    assert len(result.float_nodes) == 2
    assert any(row.op_type == "QuantizeLinear" and row.nodes > 0 for row in result.by_op)


def test_a_session_that_falls_back_is_refused(tmp_path: Path) -> None:
    """A wheel without the provider opens the session on the CPU, and says so in a warning."""
    path = dense().write(tmp_path).path
    assert path is not None
    provider = "MIGraphXExecutionProvider"
    with (
        pytest.warns(UserWarning, match=provider),
        pytest.raises(BuildError, match=r"dense\.onnx does not run on the device that was asked for") as caught,
    ):
        open_session(path, [Provider(provider)])
    assert caught.value.value == f"asked for {provider}, got CPUExecutionProvider"


def test_settings_of_the_session(tmp_path: Path) -> None:
    """Threads are those asked for, spinning is off, and only the CPU is registered."""
    path = dense().write(tmp_path).path
    assert path is not None
    session, beside = open_session(path, threads=2)
    settings = session.get_session_options()
    assert (settings.intra_op_num_threads, settings.inter_op_num_threads) == (2, 1)
    assert settings.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert (session.get_providers(), beside) == (["CPUExecutionProvider"], ())


def test_reference_is_the_file_itself(tmp_path: Path) -> None:
    """The float engine opens the user's own file and copies nothing into the cache but a list of digests."""
    model = dense().write(tmp_path)
    folder = quantized(spec_of(model, None), lambda: iter(()), tmp_path / "b")
    assert [file.name for file in folder.iterdir()] == ["in_place.txt"]
    assert len((folder / "in_place.txt").read_text(encoding="utf-8").split()[0]) == 64


@pytest.mark.parametrize("scheme", ARRIVING)
def test_model_that_arrives_quantized(tmp_path: Path, scheme: str) -> None:
    """Either scheme opens the quantized model as it is and counts what runs; both models are ingredients."""
    example = conv()
    model = example.write(tmp_path)
    static = quantized(spec_of(model, "static"), lambda: iter([example.feeds(32, 1)]), tmp_path / "b")
    ready = Model.from_onnx(engine_file(static))
    spec = spec_of(model, scheme, quantized=ready)
    feeds = example.feeds(8, 99)
    with engine_of(spec, lambda: iter(())) as engine:
        assert engine.coverage(feeds).pct == 100.0
        assert engine.size_bytes == engine_file(static).stat().st_size
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 20
    assert {"model", "quantized model"} <= get_backend("ort").ingredients(spec).keys()


def test_a_quantized_model_excludes_nodes_of_its_float_model(tmp_path: Path) -> None:
    """A name that the float model does not have would ask for nothing: it is an error, as where we quantize."""
    example = dense()
    model = example.write(tmp_path)
    static = quantized(spec_of(model, "static"), lambda: iter([example.feeds(32, 1)]), tmp_path / "b")
    spec = spec_of(model, "given", quantized=Model.from_onnx(engine_file(static)), exclude=("dnse",))
    with (
        engine_of(spec, lambda: iter(())) as engine,
        pytest.raises(UsageError, match="exclude names a node that dense does not have"),
    ):
        engine.coverage(example.feeds(8, 99))


def test_float_model_passed_off_as_quantized(tmp_path: Path) -> None:
    """A float model named as the quantized one has coverage 0."""
    model = dense().write(tmp_path)
    with engine_of(spec_of(model, "given", quantized=model), lambda: iter(())) as engine:
        assert engine.coverage(dense().feeds(1, 1)).pct == 0.0


RESHAPE = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n] x) => (float[3, 5] y) <int64[2] shape = {3, 5}> { [view] y = Reshape(x, shape) }"""


def _reshape(folder: Path) -> Model:
    """Write a model that takes any number of values and fails unless there are 15."""
    onnx.save(onnx.parser.parse_model(RESHAPE), folder / "reshape.onnx")
    return Model.from_onnx(folder / "reshape.onnx")


def test_failing_kernel_is_not_blamed_on_the_data(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A kernel that fails on inputs that fit is a build error, and nothing is printed beside it."""
    with engine_of(spec_of(_reshape(tmp_path), None), lambda: iter(())) as engine:
        assert engine.run({"x": np.zeros(15, np.float32)})["y"].shape == (3, 5)
        with pytest.raises(BuildError, match="Name:'view'"):
            engine.run({"x": np.zeros(14, np.float32)})
    assert tuple(capfd.readouterr()) == ("", "")


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Building, running and profiling leave no file in the working folder, the model's or that of temporary files."""
    work, temporary, models = tmp_path / "work", tmp_path / "temporary", tmp_path / "models"
    for folder in (work, temporary, models):
        folder.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    model = conv().write(models)
    for scheme in (None, "static", "dynamic", "weight-only"):
        with engine_of(spec_of(model, scheme), lambda: iter([conv().feeds(8, 1)])) as engine:
            engine.coverage(conv().feeds(1, 99))
    # What was prepared last goes with the next model, or with the process.
    prepare._last_prepared.cache_clear()
    assert [*work.iterdir(), *temporary.glob("*/*")] == []
    assert [file.name for file in models.iterdir()] == ["conv.onnx"]


WORDS = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]> words (float[n, 2] x) => (string[n] word) {
    index = ArgMax<axis = 1, keepdims = 0>(x)
    word = ai.onnx.ml.LabelEncoder<keys_int64s = [0, 1], values_strings = ["cat", "OTHER"]>(index) }"""


@pytest.mark.parametrize(("other", "equal"), [("horse", True), ("hen", False)])
def test_words_are_recorded_and_compared(other: str, equal: bool, tmp_path: Path) -> None:
    """Recorded words come back as they were, and those of a candidate are told equal or not."""
    specs: list[EngineSpec] = []
    for word in ("horse", other):
        onnx.save(onnx.parser.parse_model(WORDS.replace("OTHER", word)), tmp_path / f"{len(specs)}.onnx")
        specs.append(spec_of(Model.from_onnx(tmp_path / f"{len(specs)}.onnx"), None))
    scores = np.array([[1.0, 0.0], [0.0, 1.0], [0.2, 0.8]], dtype=np.float32)
    with engine_of(specs[0], lambda: iter(())) as first, engine_of(specs[1], lambda: iter(())) as second:
        data = open_data(Dataset.from_arrays(scores), first.signature)
        recorded = record_outputs(leading(first, 2), data, Cache(tmp_path / "cache"), {})
        said = np.concatenate([chunk.outputs["word"] for chunk in read_outputs(recorded)])
        pairs = pair_outputs(read_outputs(recorded), run_over(leading(second, 3), data))
        result = evaluate(pairs, None, output=())
    assert said.tolist() == ["cat", "horse", "horse"]
    assert (result.faults, result.identical) == ((), equal)
