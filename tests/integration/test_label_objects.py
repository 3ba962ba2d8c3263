"""Labels that are texts or annotations, from the fixture to the record."""

from __future__ import annotations

import pytest

from tests.integration.projects import output, run_project, write_project
from tests.support import models

TEXTS = "return Dataset.from_arrays(x, ['class ' + str(i) for i in y], calibration=40)"
ANNOTATED = "return Dataset.from_iterable([(r, {'best': [i], 'scores': r[:4]}) for r, i in zip(x, y)], calibration=40)"
NAMED = "lambda o, y: ['class ' + str(row.argmax()) == label for row, label in zip(o, y)]"
NEAR = "lambda o, y: [abs(row - label['scores']).max() < 0.5 for row, label in zip(o, y)]"


@pytest.mark.parametrize(("data", "fn"), [(TEXTS, NAMED), (ANNOTATED, NEAR)], ids=["texts", "annotations"])
def test_a_metric_reads_labels_of_any_type(pytester: pytest.Pytester, data: str, fn: str) -> None:
    """The reference is right by construction: 100 % on 80 samples, of which the metric sees each one's own label."""
    models.select_first(pytester.path / "model.onnx")
    mark = f"metric=__import__('pytest_quant').Metric({fn}, name='own'), max_drop=10.0"
    write_project(pytester, data=data, mark=mark)
    for status in ("built", "hit"):
        result, (check,) = run_project(pytester)
        result.assert_outcomes(passed=1)
        assert (check["accuracy"]["n"], check["accuracy"]["reference"]) == (80, 100.0)
        assert check["cache"]["reference"] == status


def test_a_built_in_metric_says_what_it_cannot_read(pytester: pytest.Pytester) -> None:
    """The type of the labels, and both ways on."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester, data=TEXTS, mark="metric='top1', max_drop=1.0")
    result, _ = run_project(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*'top1' cannot read these labels*", "*labels of type str*", "*index of its class*"])
    assert "Traceback" not in output(result)


def test_a_limit_on_texts_without_a_metric_asks_for_one(pytester: pytest.Pytester) -> None:
    """There is no default for them."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester, data=TEXTS)
    result, _ = run_project(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*max_drop needs a metric here*", "*labels of type str, output '*' of shape*"])
