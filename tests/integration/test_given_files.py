"""A file given as quantized that is not what its mark says: the failure says what it is, and what it says helps."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime.quantization as ort_quantization
import pytest
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers.float16 import convert_float_to_float16

from tests.integration.projects import output, run_marks
from tests.support import layouts, models

CONFTEST = """
import numpy as np
import pytest
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from pytest_quant import Dataset


@pytest.fixture
def quant_data():
    x = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)
    return Dataset.from_arrays(x, x[:, :4].argmax(axis=1))
"""


class _Uniform(ort_quantization.CalibrationDataReader):  # type: ignore[misc]
    """One batch of uniform values."""

    def __init__(self, bound: float = 4.0) -> None:
        self._batches = iter([{"x": np.random.default_rng(1).uniform(-bound, bound, (40, 8)).astype(np.float32)}])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the batch once."""
        return next(self._batches, None)


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A classifier, the same file under another name, in float16 and in INT8, and labelled samples."""
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]")
    path = layouts.classifier(Path("float.onnx"))
    shutil.copy(path, "copy.onnx")
    onnx.save(convert_float_to_float16(onnx.load(path), keep_io_types=True), "half.onnx")
    ort_quantization.quantize_static("float.onnx", "int8.onnx", _Uniform())
    return pytester


@pytest.mark.parametrize("backend", ["ort", "openvino"])
def test_eight_bits_judged_as_four(project: pytest.Pytester, backend: str) -> None:
    """What ran in int8 is not called float, and the precision that the text names makes the check pass."""
    mark = f"model='float.onnx', quantized='int8.onnx', backend='{backend}', max_drop=5"
    result, checks = run_marks(project, {"asked": f"{mark}, precision='int4'", "followed": f"{mark}, precision='int8'"})
    assert [checks[name]["status"] for name in ("asked", "followed")] == ["FAIL", "PASS"]
    assert "100.00 % of the eligible MACs ran in int8: precision='int8' judges it as that" in " ".join(
        output(result).split()
    )
    assert "ran in float" not in output(result)
    hint = checks["asked"]["hints"][0]
    assert (hint["paste"], hint["before"], hint["after"]) == ("precision='int8'", 0.0, 100.0)


WRONG = {
    "itself": ("float.onnx", "", "quantized= is the float model itself, which has no node that quantizes"),
    "copy": ("copy.onnx", "", "quantized= is a float model, which has no node that quantizes"),
    "half": ("half.onnx", "precision='fp16'", "holds weights in fp16, and nothing in it is quantized"),
}


def test_a_float_file_is_named_as_what_it_is(project: pytest.Pytester) -> None:
    """Nothing else is tried for it, and the precision that the text names makes the check pass."""
    marks = {name: f"model='float.onnx', quantized='{file}', max_drop=5" for name, (file, *_) in WRONG.items()}
    result, checks = run_marks(project, marks | {"followed": f"{marks['half']}, precision='fp16'"})
    for name, (_, paste, text) in WRONG.items():
        (hint,) = checks[name]["hints"]
        assert (checks[name]["status"], hint["paste"]) == ("FAIL", paste)
        assert text in hint["text"]
    assert checks["followed"]["status"] == "PASS"
    assert "without gain" not in output(result)


OTHERS = {
    "fp32": ("float.onnx", "no weight of it is fp16", "give the file converted to fp16"),
    "one_number": ("one_number.onnx", "no weight of it is fp16", "give the file converted to fp16"),
    "int8": ("int8.onnx", "of a quantized model: ", "write the precision that it is quantized to"),
    "int8_in_half": ("int8_in_half.onnx", "of a quantized model: ", "write the precision that it is quantized to"),
    "int4": ("int4.onnx", "1 node of a quantized model: MatMulNBits", "write the precision that it is quantized to"),
}


def test_a_file_that_is_not_what_fp16_says(project: pytest.Pytester) -> None:
    """A CPU computes all of them in float32, and what runs shows no difference: the file does, whatever is beside."""
    shutil.copy("float.onnx", "one_number.onnx")
    model = onnx.load("one_number.onnx")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1], np.float16), "unused"))
    onnx.save(model, "one_number.onnx")
    onnx.save(convert_float_to_float16(onnx.load("int8.onnx"), keep_io_types=True), "int8_in_half.onnx")
    quantizer = MatMulNBitsQuantizer(onnx.load("float.onnx"), is_symmetric=True)
    quantizer.process()
    onnx.save(quantizer.model.model, "int4.onnx")
    marks = {
        name: f"model='float.onnx', quantized='{file}', precision='fp16', max_drop=50"
        for name, (file, *_) in OTHERS.items()
    }
    _, checks = run_marks(project, marks | {"fp16": marks["fp32"].replace("'float.onnx', p", "'half.onnx', p")})
    assert checks["fp16"]["status"] == "PASS"
    for name, (_, found, fix) in OTHERS.items():
        assert checks[name]["status"] == "ERROR"
        assert "is no fp16 model" in checks[name]["message"]
        assert found in checks[name]["message"]
        assert fix in checks[name]["message"]


def test_a_limit_that_no_file_of_fp16_meets_on_a_processor(project: pytest.Pytester) -> None:
    """The failure says why and what to leave out, which helps; of the size, which was not read back, nothing."""
    mark = "model='float.onnx', quantized='half.onnx', precision='fp16', max_drop=5"
    result, checks = run_marks(project, {"asked": f"{mark}, min_coverage=50", "followed": mark})
    assert [checks[name]["status"] for name in ("asked", "followed")] == ["FAIL", "PASS"]
    (hint,) = checks["asked"]["hints"]
    assert (hint["paste"], hint["text"]) == (
        "",
        "'ort' computes fp16 in float32 here, so that min_coverage cannot be met: leave it out of the mark",
    )
    said = " ".join(output(result).split())
    assert "the engine does not have the speed of fp16" in said
    assert "the size of" not in said
    assert "precision='fp16'" not in said


@pytest.mark.parametrize("backend", ["ort", "openvino"])
def test_a_reference_with_weights_of_fp16(project: pytest.Pytester, backend: str) -> None:
    """It is computed in float32, and may be all that there is: a note says what is in no figure."""
    options = f"quantized='int8.onnx', backend='{backend}', max_drop=5"
    _, checks = run_marks(project, {name: f"model='{name}.onnx', {options}" for name in ("float", "half")})
    lost = "weights of the reference are fp16 in its file: what rounding them to that lost is in no figure"
    assert [(check["status"], lost in check["notes"]) for check in checks.values()] == [("PASS", False), ("PASS", True)]


def test_a_quantized_file_that_runs_in_float_is_not_called_float(project: pytest.Pytester) -> None:
    """Its only product is a float one behind nodes that quantize, whose levels no kernel multiplies: as before."""
    graph = """(float[n, 8] x) => (float[n, 4] scores) {
        q = QuantizeLinear(x, scale, zero) rounded = DequantizeLinear(q, scale, zero) scores = MatMul(rounded, w)
    }"""
    scale, zero = np.array(0.1, np.float32), np.array(0, np.int8)
    models.parsed(project.path / "rounds.onnx", graph, scale=scale, zero=zero, w=np.eye(8, 4, dtype=np.float32))
    _, checks = run_marks(project, {"rounds": "model='float.onnx', quantized='rounds.onnx', max_drop=90"})
    assert checks["rounds"]["status"] == "FAIL"
    assert not any("quantized= is" in hint["text"] or "no node" in hint["text"] for hint in checks["rounds"]["hints"])


def test_files_that_are_swapped(project: pytest.Pytester) -> None:
    """The error says so; two quantized files are not called swapped; followed, the check passes."""
    marks = {
        "swapped": "model='int8.onnx', quantized='float.onnx', max_drop=5",
        "twice": "model='int8.onnx', quantized='int8.onnx', max_drop=5",
        "followed": "model='float.onnx', quantized='int8.onnx', max_drop=5",
    }
    _, checks = run_marks(project, marks)
    assert [checks[name]["status"] for name in marks] == ["ERROR", "ERROR", "PASS"]
    assert "swap them in the mark: the float model 'float' as model=..." in checks["swapped"]["message"]
    assert "swap" not in checks["twice"]["message"]
    assert "give the float model as model=... or by quant_model" in checks["twice"]["message"]


def test_a_score_that_fp32_does_not_reach_is_no_matter_of_quantization(project: pytest.Pytester) -> None:
    """The labels are random: nothing is tried, and where another limit is broken too, its remedies are."""
    conftest = CONFTEST.replace("x[:, :4].argmax(axis=1)", "np.arange(100) % 4, calibration=20")
    project.makeconftest(conftest)
    alone = "model='float.onnx', min_accuracy=60"
    result, checks = run_marks(project, {"alone": alone, "both": f"{alone}, exclude=['scores'], min_coverage=50"})
    assert [check["status"] for check in checks.values()] == ["FAIL", "FAIL"]
    assert [hint["text"] for hint in checks["alone"]["hints"]] == ["nothing was tried: FP32 breaks min_accuracy too"]
    assert "FP32 breaks min_accuracy too: look at labels" in output(result)
    assert "exclude=[]" in [hint["paste"] for hint in checks["both"]["hints"]]


def test_a_way_that_needs_calibration_samples_is_named_where_there_are_none(project: pytest.Pytester) -> None:
    """The file was calibrated on values that are far too small; with samples kept apart the same way is tried."""
    ort_quantization.quantize_static("float.onnx", "narrow.onnx", _Uniform(0.01))
    mark = "model='float.onnx', quantized='narrow.onnx', min_agreement=90"
    _, checks = run_marks(project, {"without": mark})
    text = "could not be measured: quantized=None, scheme='static': ort-int8-static of float has no calibration data"
    assert text in [hint["text"] for hint in checks["without"]["hints"]]
    project.makeconftest(CONFTEST.replace("axis=1))", "axis=1), calibration=20)"))
    _, checks = run_marks(project, {"with": mark})
    hints = checks["with"]["hints"]
    assert "quantized=None, scheme='static'" in [hint["paste"] for hint in hints]
    assert not any("no calibration" in hint["text"] for hint in hints)
