"""The fixtures that a user overrides and those the plugin gives. The session is a fake."""

from __future__ import annotations

import json

import pytest

from tests.integration.fake_session import CONFTEST, run_apart, run_fake, write_fake
from tests.support import models

_BARE = "import pytest\n"


def test_missing_fixtures_say_how_to_write_them(pytester: pytest.Pytester) -> None:
    """The error shows code to copy."""
    source = "@mark.quant()\ndef test_it(): pass\n"
    result = run_fake(pytester, source, conftest=_BARE)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*quant_model is not written*", "*@pytest.fixture*", "*def quant_model():*"])
    result.stdout.fnmatch_lines(
        ["*only a quantized file*", "*Scores and min_accuracy: pytest-quant guide models-and-data*"]
    )
    with_model = CONFTEST.split("@pytest.fixture\ndef quant_data")[0]
    result = run_fake(pytester, source, conftest=with_model)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*quant_data is not written*", "*Dataset.from_arrays(inputs, labels*"])


MODELS = """
@pytest.fixture
def resnet18(): return "elsewhere/resnet18.onnx"

@pytest.fixture
def my_data(): return ([1.0, 2.0], [0, 1])

@mark.quant(model="resnet18", data="my_data")
def test_fixture(quant):
    assert quant.check.candidate.model.path.parts[-2:] == ("elsewhere", "resnet18.onnx")
    assert quant.check.dataset.labels == [0, 1]

@mark.quant(model="beside.onnx")
def test_beside(quant, request): assert quant.check.candidate.model.path == request.path.parent / "beside.onnx"

@mark.quant(model="models/root.onnx")
def test_root(quant, request): assert quant.check.candidate.model.path == request.config.rootpath / "models/root.onnx"

@mark.quant(quantized="beside.onnx")
def test_quantized(quant):
    assert quant.check.candidate.scheme == "given"
    assert (quant.check.candidate.model.name, quant.check.candidate.quantized.name) == ("model", "beside")

@mark.quant(model="resnet19")
def test_neither(): pass

@mark.quant(data="no_data")
def test_no_data(): pass

@pytest.fixture
def number(): return 3

@mark.quant(model="number")
def test_no_model(): pass
"""


def test_models_and_data_by_fixture_by_the_test_and_by_the_root(pytester: pytest.Pytester) -> None:
    """A name is a fixture's, else a file beside the test, else one under the root."""
    folder = pytester.mkdir("tests")
    pytester.mkdir("models")
    for file in (folder / "beside.onnx", pytester.path / "models" / "root.onnx", pytester.path / "beside.onnx"):
        file.touch()
    write_fake(pytester.path, MODELS)
    (pytester.path / "test_it.py").rename(folder / "test_it.py")
    result = run_apart(pytester, "--rootdir=.", "tests")
    result.assert_outcomes(passed=4, errors=3)
    result.stdout.fnmatch_lines(
        [
            "*model='resnet19' is neither a fixture nor a file*",
            "*data='no_data' is no fixture*",
            "*'number' must give a model*",
        ]
    )


def test_engines_are_open_in_the_body_and_closed_after_it(pytester: pytest.Pytester) -> None:
    """`quant`, `quant_engine` and `quant_reference` are of one measurement."""
    source = """
@mark.quant()
def test_open(quant, quant_engine, quant_reference):
    assert quant_engine is quant.engine and not quant_engine.closed
    assert quant_reference is quant.reference and not quant_reference.closed
    assert quant.accuracy.n == 10
"""
    run_fake(pytester, source).assert_outcomes(passed=1)
    assert (pytester.path / "closed").exists()


def test_a_measurement_that_cannot_be_kept_is_closed(pytester: pytest.Pytester) -> None:
    """No engine stays open behind an error."""
    run_fake(pytester, "@mark.quant(output='unkept')\ndef test_it(): pass\n").assert_outcomes(errors=1)
    assert (pytester.path / "closed").exists()


def test_build_engine_takes_the_marks_keys(pytester: pytest.Pytester) -> None:
    """It needs no mark, leaves no record, and closes what it built."""
    source = """
import pytest_quant
BUILT = []

def test_build(build_engine):
    static = build_engine(model="a.onnx", calibration={"samples": 5}, exclude=["head"])
    dynamic = build_engine("ort", "int8", "dynamic")
    assert static.spec.id == "ort-int8-static"
    assert (static.spec.calibration.samples, static.spec.exclude) == (5, ("head",))
    assert static.dataset is not None and dynamic.dataset is None
    BUILT.extend([static, dynamic])

def test_closed():
    assert [engine.closed for engine in BUILT] == [True, True]

def test_wrong(build_engine):
    with pytest.raises(pytest_quant.UsageError, match="unknown backend"):
        build_engine("otr")
    with pytest.raises(TypeError):
        build_engine(presicion="int8")
"""
    for name in ("a.onnx", "model.onnx"):
        models.select_first(pytester.path / name)
    result = run_fake(pytester, source, "--quant-json=run.json")
    result.assert_outcomes(passed=3)
    assert json.loads((pytester.path / "run.json").read_text())["checks"] == []


def test_build_engine_reads_named_data_for_its_shapes(pytester: pytest.Pytester) -> None:
    """Where the backend builds for shapes; a float engine is given no other data than what the call names."""
    source = """
def test_build(build_engine):
    assert build_engine("trt-rtx", "fp32", data="quant_data").dataset is not None
    assert build_engine("trt-rtx", "fp32").dataset is None
    assert build_engine("ort", "fp32", data="quant_data").dataset is None
"""
    models.select_first(pytester.path / "model.onnx")
    run_fake(pytester, source).assert_outcomes(passed=1)
