"""From the mark to the verdict, on a second provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.backends.ort.openvino import OPENVINO
from tests.integration.ort_provider_traps.graphs import classifier
from tests.integration.projects import output, run_project_apart, write_project
from tests.support import models

OFFER = "from tests.integration.ort_provider_traps.any_cpu import offer_any_cpu\noffer_any_cpu()\n"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project whose runs have the plugin on a CPU of any maker."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    write_project(pytester, mark="backend='ort-openvino', reference='ort', min_agreement=90")
    conftest = pytester.path / "conftest.py"
    conftest.write_text(OFFER + conftest.read_text("utf-8"), "utf-8")
    return pytester


def test_int8_on_openvino_against_float_on_the_cpu_provider(project: pytest.Pytester) -> None:
    """It passes, and the record says on which provider the one product ran, and that all of it was int8."""
    models.select_first(project.path / "model.onnx")
    result, (check,) = run_project_apart(project)
    result.assert_outcomes(passed=1)
    assert (check["coverage"]["provider"], check["coverage"]["pct"]) == (OPENVINO, 100.0)


def test_a_fallback_is_an_error_and_not_a_verdict(project: pytest.Pytester) -> None:
    """The node that would have run on the CPU provider is named, and the test neither passes nor is skipped."""
    classifier(project.path / "model.onnx")
    result, (check,) = run_project_apart(project)
    result.assert_outcomes(errors=1)
    assert check["status"] == "ERROR"
    assert "middle (TransposeMatMul) on CPUExecutionProvider" in check["message"]
    assert "middle (TransposeMatMul)" in output(result)
