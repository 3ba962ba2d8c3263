"""A calibration set of another size moves samples between the two sets, and leaves the records comparable."""

from __future__ import annotations

import json
import sys

import pytest

from tests.integration.projects import output, run_project_apart, write_project
from tests.support import models

COMPARE = "from pytest_quant.cli import main; main()"


def test_another_number_of_calibration_samples_is_compared(pytester: pytest.Pytester) -> None:
    """Of 120 samples 40 calibrate, then 20: 80 and 100 are evaluated, and the counts are those of the two splits."""
    models.select_first(pytester.path / "model.onnx")
    runs = []
    for calibration in (40, 20):
        write_project(pytester, data=f"return Dataset.from_arrays(x, y, calibration={calibration})", mark="")
        result, (check,) = run_project_apart(pytester)
        result.assert_outcomes(passed=1)
        document = json.loads((pytester.path / "run.json").read_text("utf-8"))
        assert list(document["run"]["samples"]) == [check["digests"]["data"]]
        assert check["samples"] is None
        runs.append(document["run"]["id"])
    taken = [{round(i * 119 / (k - 1)) for i in range(k)} for k in (40, 20)]
    both = len(set(range(120)) - taken[0] - taken[1])
    compared = pytester.run(sys.executable, "-c", COMPARE, "compare", *runs)
    text = " ".join(output(compared).split())
    assert f"compared on the {both} samples that both have, of 80 and 100" in text
    assert "not compared" not in text
