"""Calibrations that went wrong in practice: the model is right, and what it was calibrated on or how is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.projects import output, run_project
from tests.support.example import EXAMPLE

CONFTEST = """
import sys
import pytest
from pytest_quant import Dataset
sys.path.insert(0, {example!r})
from digits_data import load_digits_split


@pytest.fixture
def quant_model():
    return {model!r}


@pytest.fixture
def quant_data():
    digits = load_digits_split()
    return Dataset.from_arrays(digits.test_images, digits.test_labels, calibration=digits.calibration_images)


@pytest.fixture
def not_normalized():
    digits = load_digits_split()
    return Dataset.from_arrays(digits.test_images, digits.test_labels, calibration=255 * digits.calibration_images)
"""

TESTS = """
import pytest
from pytest_quant import Calibration

pytestmark = pytest.mark.quant(backend="ort", max_drop=1.0)


@pytest.mark.quant
def test_right():
    pass


@pytest.mark.quant(data="not_normalized")
def test_pictures_in_0_to_255():
    pass


@pytest.mark.quant(calibration=Calibration(method="percentile", percentile=90.0))
def test_a_tenth_of_all_values_cut_off():
    pass
"""


def test_wrong_calibrations_of_a_classifier(pytester: pytest.Pytester) -> None:
    """Ranges of pictures not normalized, or without a tenth of the values, lose the answers and are caught."""
    pytester.makeconftest(CONFTEST.format(example=str(EXAMPLE), model=str(Path(EXAMPLE) / "digits.onnx")))
    pytester.makepyfile(test_digits=TESTS)
    result, checks = run_project(pytester)
    found = {check["nodeid"].partition("::")[2]: check for check in checks}
    assert set(found) == {"test_right", "test_pictures_in_0_to_255", "test_a_tenth_of_all_values_cut_off"}, output(
        result
    )
    assert found.pop("test_right")["status"] == "PASS"
    broken = {
        name: [verdict["limit"] for verdict in check["verdicts"] if verdict["status"] == "FAIL"]
        for name, check in found.items()
    }
    # Ranges 255 times too wide round every value to the same one.
    assert broken == {
        "test_pictures_in_0_to_255": ["outputs", "max_drop"],
        "test_a_tenth_of_all_values_cut_off": ["max_drop"],
    }
    assert found["test_pictures_in_0_to_255"]["accuracy"]["drop"] > 20
