"""Lists in a mark are tests with readable ids. The session is a fake."""

from __future__ import annotations

import json

import pytest

from tests.integration.fake_session import CONFTEST, run_fake, run_fake_apart

SOURCE = """
@mark.quant(precision=["fp32", "int8"], scheme=["static", "dynamic"])
def test_ladder(quant): assert quant.engine.spec.id in {"ort-fp32", "ort-int8-static", "ort-int8-dynamic"}

@mark.quant(batch_size=[1, 8])
def test_batches(): pass

@mark.quant(precision=["int8"])
@mark.parametrize("x", ["a", "b"])
class TestBoth:
    def test_it(self, x): pass

@mark.quant(precision="int8")
def test_single(): pass
"""
IDS = [
    "test_ladder[ort-fp32]",
    "test_ladder[ort-int8-static]",
    "test_ladder[ort-int8-dynamic]",
    "test_batches[ort-int8-static-b1]",
    "test_batches[ort-int8-static-b8]",
    "TestBoth::test_it[a-ort-int8-static]",
    "TestBoth::test_it[b-ort-int8-static]",
    "test_single",
]
SERIES = ["test_ladder"] * 3 + ["test_batches"] * 2 + ["TestBoth::test_it[a]", "TestBoth::test_it[b]", "test_single"]


@pytest.mark.parametrize("args", [(), ("-n", "2"), ("-n", "2", "--dist", "loadgroup")])
def test_ids_and_series(pytester: pytest.Pytester, args: tuple[str, ...]) -> None:
    """The ids name the engines; the series leave out what our lists and xdist's groups add."""
    source = SOURCE.replace("def test_single", "@mark.xdist_group('g')\ndef test_single")
    result = run_fake_apart(pytester, source, "--quant-json=run.json", *args)
    result.assert_outcomes(passed=len(IDS))
    checks = json.loads((pytester.path / "run.json").read_text())["checks"]
    assert [check["nodeid"] for check in checks] == [f"test_it.py::{name}" for name in IDS]
    assert [json.loads(check["series"])[0] for check in checks] == [f"test_it.py::{name}" for name in SERIES]
    assert [check["batch_size"] for check in checks[3:5]] == [1, 8]


def test_a_fixture_with_parameters_may_give_the_model(pytester: pytest.Pytester) -> None:
    """A parametrized fixture, pytest's own way to write several models works beside our lists."""
    conftest = CONFTEST.replace(
        '@pytest.fixture\ndef quant_model():\n    return "model.onnx"',
        "@pytest.fixture(params=['a.onnx', 'b.onnx'])\ndef quant_model(request):\n    return request.param\n\n"
        "@pytest.fixture(params=['c.onnx', 'd.onnx'])\ndef nets(request):\n    return request.param",
    )
    source = """
@mark.quant(scheme=["static", "dynamic"])
def test_default(): pass

@mark.quant(model="nets")
def test_named(): pass
"""
    result = run_fake(pytester, source, "--quant-json=run.json", conftest=conftest)
    result.assert_outcomes(passed=6)
    checks = json.loads((pytester.path / "run.json").read_text())["checks"]
    assert sorted(check["model"] for check in checks) == ["a", "a", "b", "b", "c", "d"]
