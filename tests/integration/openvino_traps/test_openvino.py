"""Traps of OpenVINO and NNCF, each with the real ones."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import openvino
import openvino.opset13 as ops
import pytest

from pytest_quant.backends import get_backend
from pytest_quant.backends.openvino.quantize import write_quantized
from pytest_quant.errors import BuildError, ModelError
from pytest_quant.spec import Calibration, EngineSpec, Model
from pytest_quant.testing.conformance.examples import Example, build, conv, dense, open_example, sqnr_db
from tests.integration.openvino_traps.graphs import quantized
from tests.support.example import environment
from tests.support.models import parsed
from tests.support.third_party import HIDING

OPENVINO = get_backend("openvino")


def static(model: Model, **options: object) -> EngineSpec:
    """The spec of static quantization."""
    return EngineSpec("openvino", "int8", "static", model, options=tuple(sorted(options.items())))


@pytest.fixture(params=[conv, dense], ids=["conv", "dense"])
def example(request: pytest.FixtureRequest) -> Example:
    """A convolution and dense layers."""
    result: Example = request.param()
    return result


def test_no_torch_is_needed(tmp_path: Path) -> None:
    """A check runs where torch cannot be found, as on a machine without it."""
    model = conv().write(tmp_path)
    script = f"""{HIDING.format(hidden=("torch", "torchao"))}
from pytest_quant.testing.conformance.examples import open_example
from pytest_quant.testing.conformance.examples import conv
from pytest_quant.backends import get_backend
from pytest_quant.spec import EngineSpec, Model
spec = EngineSpec("openvino", "int8", "static", Model.from_onnx({str(model.path)!r}))
assert get_backend("openvino").availability().available
with open_example(get_backend("openvino"), spec, conv()) as engine:
    print(engine.coverage(conv().feeds(1, 0)).pct)
"""
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=False, timeout=600
    )
    assert run.stdout == "100.0\n", run.stdout + run.stderr


def test_nothing_is_printed(example: Example, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """NNCF's progress bars and log lines stay off the screen."""
    spec = static(example.write(tmp_path))
    folder = tmp_path / "engine"
    folder.mkdir()
    build(OPENVINO, spec, example, folder)
    assert capfd.readouterr() == ("", "")


def test_the_file_keeps_float32_weights(example: Example, tmp_path: Path) -> None:
    """OpenVINO's own default would write FP16 weights, half the size and another model."""
    model = example.write(tmp_path)
    spec = EngineSpec("openvino", "fp32", None, model)
    weights = sum(tensor.ByteSize() for tensor in example.proto.graph.initializer)
    with open_example(OPENVINO, spec, example) as engine:
        assert engine.size_bytes > weights
        feeds = example.feeds(5, 1)
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 100


def test_a_pin_that_does_not_hold_is_refused(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that is free to take a shorter float is not timed as an FP32 reference."""
    real = openvino.Core.compile_model

    def unpinned(core: openvino.Core, model: object, device: str, settings: dict[str, object]) -> object:
        return real(core, model, device, settings | {"INFERENCE_PRECISION_HINT": openvino.Type.dynamic})

    monkeypatch.setattr(openvino.Core, "compile_model", unpinned)
    spec = EngineSpec("openvino", "fp32", None, example.write(tmp_path))
    with pytest.raises(BuildError, match="does not keep to float32"), open_example(OPENVINO, spec, example):
        pass


def test_a_quantized_model_of_its_own_format(example: Example, tmp_path: Path) -> None:
    """An .xml with its .bin is taken as it is; without the .bin it is an error that says what belongs together."""
    model = example.write(tmp_path)
    folder = tmp_path / "engine"
    folder.mkdir()
    ready = build(OPENVINO, static(model), example, folder) / "model.xml"
    spec = EngineSpec("openvino", "int8", "given", model, quantized=Model.from_onnx(ready))
    with open_example(OPENVINO, spec, example) as engine:
        assert engine.coverage(example.feeds(1, 0)).pct == 100.0
        assert {output.name for output in engine.signature.outputs} == {"y"}
    ready.with_suffix(".bin").unlink()
    for ask in (OPENVINO.ingredients, lambda engine_spec: OPENVINO.signature(engine_spec.quantized)):
        with pytest.raises(ModelError, match="two files"):
            ask(spec)


def test_a_tensor_without_a_name_is_told(tmp_path: Path) -> None:
    """Samples are given by name, and a file may have none, as those of earlier versions of OpenVINO."""
    file, given = tmp_path / "model.xml", ops.parameter([1, 4], np.float32)
    openvino.save_model(openvino.Model([ops.relu(given)], [given]), file)
    file.write_text(re.sub(r' (output_)?names="\w+"', "", file.read_text()))
    with pytest.raises(ModelError, match="has no name") as caught:
        OPENVINO.signature(Model.from_onnx(file))
    assert "set_names" in (caught.value.fix or "")


def test_a_quantized_onnx_file(tmp_path: Path) -> None:
    """ONNX Runtime's Q/DQ pairs run as INT8 here too."""
    example = conv()
    model = example.write(tmp_path)
    folder = tmp_path / "ort"
    folder.mkdir()
    ready = build(get_backend("ort"), EngineSpec("ort", "int8", "static", model), example, folder) / "model.onnx"
    spec = EngineSpec("openvino", "int8", "given", model, quantized=Model.from_onnx(ready))
    feeds = example.feeds(16, 3)
    with open_example(OPENVINO, spec, example) as engine:
        assert engine.coverage(feeds).pct == 100.0
        assert sqnr_db(example.compute(feeds), engine.run(feeds)) > 20


def test_an_outlier_widens_minmax_and_not_percentile(tmp_path: Path) -> None:
    """One sample a hundred times larger costs minmax most of its levels; the percentile cuts it off."""
    example = dense()
    model = example.write(tmp_path)
    feeds = example.feeds(64, 5)
    wanted = example.compute(feeds)
    samples = example.feeds(400, 6)["x"]
    samples[0, 0] = 500.0
    result = {}
    for method in ("minmax", "percentile"):
        spec = replace(static(model), calibration=Calibration(method, percentile=99.9))
        with quantized(spec, lambda _: {"x": samples}) as engine:
            result[method] = sqnr_db(wanted, engine.run(feeds))
    assert result["percentile"] > result["minmax"] + 6


def test_a_scalar_input_is_calibrated_with(tmp_path: Path) -> None:
    """A threshold or a frequency beside the samples; the data is read-only, and OpenVINO shares a scalar's memory."""
    weights = ", ".join(["0.5", "-0.25"] * 8)
    graph = f"(float[n,4] x, float scale) => (float[n,4] y) <float[4,4] w = {{{weights}}}> {{"
    path = parsed(tmp_path / "scaled.onnx", f"{graph} scaled = Mul(x, scale) y = MatMul(scaled, w) }}")
    scale = np.array(2.0, np.float32)
    scale.flags.writeable = False
    feeds = {"x": np.ones((8, 4), np.float32), "scale": scale}
    write_quantized(static(Model.from_onnx(path)), lambda: iter([feeds]), tmp_path)
    assert (tmp_path / "model.xml").is_file()


def test_an_operator_it_does_not_have_is_named(tmp_path: Path) -> None:
    """The operator stands in the message, not in a page of C++ locations."""
    proto = dense().proto
    proto.graph.node[0].op_type = "NoSuchOperator"
    path = tmp_path / "strange.onnx"
    path.write_bytes(proto.SerializeToString())
    onnx.load(path)
    spec = EngineSpec("openvino", "fp32", None, Model.from_onnx(path))
    with pytest.raises(BuildError) as caught, open_example(OPENVINO, spec, dense()):
        pass
    assert str(caught.value).splitlines()[0].endswith("it has no operator NoSuchOperator")
    assert "Exception from" not in str(caught.value)
