"""Traps of ONNX Runtime's sessions: where and what it runs, and what it leaves behind."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from pytest_quant.backends import get_backend
from pytest_quant.backends.onnx_files import size_bytes
from pytest_quant.backends.ort.session import Provider, open_session
from pytest_quant.errors import BuildError, DataError, UsageError
from pytest_quant.spec import Model
from pytest_quant.testing.conformance.examples import conv, dense
from pytest_quant.testing.conformance.workbench import sqnr_db
from tests.integration.ort_traps.bench import engine_file, engine_of, quantized, spec_of

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
        found = engine.coverage(feeds)
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 20
    assert found.pct == 0.0
    assert len(found.float_nodes) == 2
    assert any(row.op_type == "QuantizeLinear" and row.nodes > 0 for row in found.by_op)


def test_default_recipe_fuses(tmp_path: Path) -> None:
    """The same model with the default recipe runs all of its compute in int8."""
    with engine_of(spec_of(conv().write(tmp_path), "static"), lambda: iter([conv().feeds(32, 1)])) as engine:
        found = engine.coverage(conv().feeds(1, 99))
    assert (found.pct, found.unit) == (100.0, "MACs")
    assert sum(row.macs or 0 for row in found.by_op) == 8 * 36 * 9 + 288 * 10
    assert {row.op_type for row in found.by_op if row.quantized_nodes} == {"QLinearConv", "QGemm"}


def test_signed_activations_run(tmp_path: Path) -> None:
    """S8S8, the ARM recipe, builds and agrees on any CPU."""
    example = conv()
    feeds = example.feeds(8, 99)
    spec = spec_of(example.write(tmp_path), "static", activation_type="int8", symmetric=True)
    with engine_of(spec, lambda: iter([example.feeds(32, 1)])) as engine:
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 20


@pytest.mark.filterwarnings("error")
def test_gpu_provider_on_the_cpu_wheel(tmp_path: Path) -> None:
    """Asking for CUDA is an error before a session could warn and run on the CPU."""
    with pytest.raises(UsageError, match="never falls back"):
        get_backend("ort").check(spec_of(dense().write(tmp_path), None, provider="CUDAExecutionProvider"))


def test_a_session_that_falls_back_is_refused(tmp_path: Path) -> None:
    """A wheel without the provider opens the session on the CPU, and says so in a warning."""
    path = dense().write(tmp_path).path
    assert path is not None
    asked = "MIGraphXExecutionProvider"
    with (
        pytest.warns(UserWarning, match=asked),
        pytest.raises(BuildError, match=r"dense\.onnx does not run where it was asked to") as caught,
    ):
        open_session(path, [Provider(asked)])
    assert caught.value.value == f"asked for {asked}, got CPUExecutionProvider"


def test_a_provider_that_takes_nothing_is_refused(tmp_path: Path) -> None:
    """It is registered first and leaves every node to the second, which was asked for too: a silent fallback."""
    path = dense().write(tmp_path).path
    assert path is not None
    remote = "AzureExecutionProvider"
    if remote not in onnxruntime.get_available_providers():
        pytest.skip(f"this onnxruntime has no {remote}, which takes remote operators only")
    with pytest.raises(BuildError, match=rf"nothing of dense\.onnx runs on {remote}") as caught:
        open_session(path, [Provider(remote), Provider("CPUExecutionProvider")])
    assert "on CPUExecutionProvider" in str(caught.value.value)


def test_settings_of_the_session(tmp_path: Path) -> None:
    """Threads are those asked for, spinning is off, and only the CPU is registered."""
    path = dense().write(tmp_path).path
    assert path is not None
    session, beside = open_session(path, threads=2)
    settings = session.get_session_options()
    assert (settings.intra_op_num_threads, settings.inter_op_num_threads) == (2, 1)
    assert settings.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert (session.get_providers(), beside) == (["CPUExecutionProvider"], ())


@pytest.mark.parametrize("scheme", [None, "static"])
def test_model_with_external_data(tmp_path: Path, scheme: str | None) -> None:
    """A model whose weights lie beside it runs, is quantized, and its size is that of both files."""
    example = dense()
    path = tmp_path / "model.onnx"
    onnx.save_model(example.proto, path, save_as_external_data=True, location="weights.bin", size_threshold=64)
    feeds = example.feeds(8, 99)
    with engine_of(spec_of(Model.from_onnx(path), scheme), lambda: iter([example.feeds(32, 1)])) as engine:
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 20
        assert scheme is not None or engine.size_bytes == size_bytes(path) > path.stat().st_size


def test_reference_is_the_file_itself(tmp_path: Path) -> None:
    """The float engine opens the user's own file and copies nothing into the cache but a list of digests."""
    model = dense().write(tmp_path)
    folder = quantized(spec_of(model, None), lambda: iter(()), tmp_path / "b")
    assert [file.name for file in folder.iterdir()] == ["in_place.txt"]
    assert len((folder / "in_place.txt").read_text(encoding="utf-8").split()[0]) == 64


def test_model_that_arrives_quantized(tmp_path: Path) -> None:
    """Scheme qat opens the quantized model as it is and counts what runs; both models are ingredients."""
    example = conv()
    model = example.write(tmp_path)
    static = quantized(spec_of(model, "static"), lambda: iter([example.feeds(32, 1)]), tmp_path / "b")
    ready = Model.from_onnx(engine_file(static))
    spec = spec_of(model, "qat", quantized=ready)
    feeds = example.feeds(8, 99)
    with engine_of(spec, lambda: iter(())) as engine:
        assert engine.coverage(feeds).pct == 100.0
        assert engine.size_bytes == engine_file(static).stat().st_size
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 20
    assert {"model", "quantized model"} <= get_backend("ort").ingredients(spec).keys()


def test_float_model_passed_off_as_quantized(tmp_path: Path) -> None:
    """A float model named as the quantized one has coverage 0."""
    model = dense().write(tmp_path)
    with engine_of(spec_of(model, "qat", quantized=model), lambda: iter(())) as engine:
        assert engine.coverage(dense().feeds(1, 1)).pct == 0.0


def test_invalid_graph_names_the_node(tmp_path: Path) -> None:
    """A graph that the runtime refuses is an error with the node and the cause."""
    proto = conv().proto
    proto.graph.node[0].attribute[0].ints[:] = [3]
    path = tmp_path / "bad.onnx"
    path.write_bytes(proto.SerializeToString())
    with (
        pytest.raises(BuildError, match="node 'conv'") as caught,
        engine_of(spec_of(Model.from_onnx(path), None), lambda: iter(())),
    ):
        pass
    assert "next:" in str(caught.value)


def _reshape(folder: Path) -> Model:
    """Write a model that takes any number of values and fails unless there are 15."""
    shape = onnx.numpy_helper.from_array(np.array([3, 5]), "shape")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Reshape", ["x", "shape"], ["y"], name="view")],
        "g",
        [value("x", onnx.TensorProto.FLOAT, ["n"])],
        [value("y", onnx.TensorProto.FLOAT, [3, 5])],
        [shape],
    )
    path = folder / "reshape.onnx"
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(proto.SerializeToString())
    return Model.from_onnx(path)


def test_failing_kernel_is_not_blamed_on_the_data(tmp_path: Path) -> None:
    """A kernel that fails on inputs that fit is a build error; inputs that do not fit are a data error."""
    with engine_of(spec_of(_reshape(tmp_path), None), lambda: iter(())) as engine:
        assert engine.run({"x": np.zeros(15, np.float32)})["y"].shape == (3, 5)
        with pytest.raises(BuildError, match="node 'view'"):
            engine.run({"x": np.zeros(14, np.float32)})
        with pytest.raises(DataError, match="wrong dtype"):
            engine.coverage({"x": np.zeros(15)})


def test_errors_are_raised_and_not_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A refused model and a refused run write nothing to the terminal beside the error."""
    proto = conv().proto
    proto.graph.node[1].op_type = "NoSuchOperator"
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(proto.SerializeToString())
    with pytest.raises(BuildError), engine_of(spec_of(Model.from_onnx(bad), None), lambda: iter(())):
        pass
    with engine_of(spec_of(_reshape(tmp_path), None), lambda: iter(())) as engine, pytest.raises(BuildError):
        engine.run({"x": np.zeros(14, np.float32)})
    assert tuple(capfd.readouterr()) == ("", "")


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Building, running and profiling leave no file in the working folder, the model's or the temporary one."""
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
    assert [list(folder.iterdir()) for folder in (work, temporary)] == [[], []]
    assert [file.name for file in models.iterdir()] == ["conv.onnx"]


def test_close_frees_native_memory(tmp_path: Path) -> None:
    """Opening and closing a 16 MB model twenty times does not add twenty times its size."""
    import psutil

    weights = onnx.numpy_helper.from_array(np.ones((2000, 2000), np.float32), "w")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [value("x", onnx.TensorProto.FLOAT, ["n", 2000])],
        [value("y", onnx.TensorProto.FLOAT, ["n", 2000])],
        [weights],
    )
    path = tmp_path / "large.onnx"
    onnx.save_model(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    spec = spec_of(Model.from_onnx(path), None)
    feeds = {"x": np.ones((1, 2000), np.float32)}
    process = psutil.Process()
    before = 0
    for turn in range(22):
        engine = get_backend("ort").open(spec, tmp_path)
        engine.run(feeds)
        engine.close()
        if turn == 1:
            before = process.memory_info().rss
    gc.collect()
    assert process.memory_info().rss - before < 10 * path.stat().st_size
