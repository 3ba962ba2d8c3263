"""A module that computes something else once it is exported is the cause of a loss, before anything that is rounded."""

from __future__ import annotations

import pytest

from tests.integration.projects import output, run_marks

CONFTEST = """
import numpy as np
import pytest
import torch
from pytest_quant import Dataset, Model
from torch import nn


class Pictures(nn.Module):
    def __init__(self, exported_as):
        super().__init__()
        torch.manual_seed(0)
        self.exported_as, self.conv, self.head = exported_as, nn.Conv2d(3, 8, 5, bias=False), nn.Linear(8, 10)

    def forward(self, x):
        mode = self.exported_as if torch.compiler.is_exporting() else "reflect"
        x = nn.functional.pad(x, (2, 2, 2, 2), mode=mode)
        return self.head(torch.relu(self.conv(x)).mean((2, 3)))


def model_of(exported_as):
    # Nothing but zeros, over which the export is compared with the module, and no padding shows.
    return Model.from_torch(Pictures(exported_as).eval(), (torch.zeros(2, 3, 8, 8),))


@pytest.fixture
def other_padding():
    return model_of("constant")


@pytest.fixture
def same_padding():
    return model_of("reflect")


@pytest.fixture
def pictures():
    pictures = np.random.default_rng(0).normal(size=(96, 3, 8, 8)).astype("float32")
    return Dataset.from_arrays({"x": pictures[:64]}, None, {"x": pictures[64:]})


@pytest.fixture
def answered(pictures):
    with torch.no_grad():
        labels = Pictures("reflect")(torch.from_numpy(pictures.inputs["x"])).argmax(1).numpy()
    return Dataset.from_arrays(pictures.inputs, labels, pictures.calibration)
"""


def test_another_padding_in_the_export_is_named_first(pytester: pytest.Pytester) -> None:
    """The module is the first that is asked; where it computes what its export does, the search goes on."""
    pytester.makeconftest(CONFTEST)
    marks = {name: f"model='{name}_padding', data='pictures', min_sqnr_db=70" for name in ("other", "same")}
    result, checks = run_marks(pytester, marks, "--quant-diagnose-time=60")
    assert {check["status"] for check in checks.values()} == {"FAIL"}, output(result)
    causes = {name: check["cause"] for name, check in checks.items()}
    assert causes["other"]["stage"] == "export"
    assert causes["same"]["stage"] != "export"
    module, engine = causes["other"]["steps"]
    assert (module["asked"], engine["asked"]) == ("the torch module", "the engine")
    assert 0 < module["sqnr_db"] < engine["sqnr_db"]
    assert (causes["other"]["nodes"], causes["other"]["without"]) == ([], "")
    assert "the torch module gives other outputs than what was exported from it" in causes["other"]["text"]
    asked = [step["asked"] for step in causes["same"]["steps"][:3]]
    assert asked == ["the torch module", "the engine", "nothing rounded"]
    assert causes["same"]["steps"][0]["sqnr_db"] is None or causes["same"]["steps"][0]["sqnr_db"] > 100


def test_an_export_that_breaks_the_limit_without_rounding_is_named(pytester: pytest.Pytester) -> None:
    """FP32 breaks it too, so that no engine is tried; of the module itself nobody would know."""
    pytester.makeconftest(CONFTEST)
    marks = {name: f"model='{name}_padding', data='answered', min_accuracy=98" for name in ("other", "same")}
    result, checks = run_marks(pytester, marks, "--quant-diagnose-time=60")
    other = checks["other"]
    assert (other["status"], other["cause"]["stage"]) == ("FAIL", "export"), output(result)
    assert any("FP32 breaks min_accuracy too" in hint["text"] for hint in other["hints"])
    assert checks["same"]["cause"] is None or checks["same"]["cause"]["stage"] != "export"
