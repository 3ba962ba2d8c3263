"""Limits on labels and on groups, from the data of a user to the verdict, on a real engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.integration.projects import output, run_marks, write_project
from tests.support import models

N = 1200
DATA = """x = rng.normal(size=(1240, 8)).astype(np.float32)
    y = x[:, :4].argmax(axis=1)
    groups = np.where(x[:, 7] > 1.0, "night", "day")
    return Dataset.from_arrays(x, y, calibration=40, groups=groups)"""


def weakened(path: Path, gain: float) -> Path:
    """Write `models.select_first` whose score of class 0 has this gain, so that it takes less than the class has."""
    weight = np.eye(models.FEATURES, models.CLASSES, dtype=np.float32)
    weight[0, 0] = gain
    return models.parsed(path, "(float[n, 8] x) => (float[n, 4] y) { [scores] y = MatMul(x, weight) }", weight=weight)


def test_a_label_fails_although_the_whole_is_within_its_limit(pytester: pytest.Pytester) -> None:
    """Class 0 loses a seventh of its answers, all classes together less than 4 points, and both groups alike."""
    models.select_first(pytester.path / "model.onnx")
    weakened(pytester.path / "weak.onnx", 0.85)
    write_project(pytester, data=DATA)
    (pytester.path / "test_model.py").unlink()
    given = "quantized='weak.onnx', min_coverage=0, "
    result, checks = run_marks(
        pytester,
        {
            "parts": given + "max_drop={'overall': 5.0, 'label': 3.0, 'group': 8.0}",
            "whole": given + "max_drop=5.0",
            "clusters": given + "max_drop={'overall': 5.0}",
        },
        "-v",
    )
    verdicts = {each["limit"]: each for each in checks["parts"]["verdicts"]}
    statuses = {limit: each["status"] for limit, each in verdicts.items() if limit.startswith("max_drop")}
    assert statuses == {"max_drop": "PASS", "max_drop[label]": "FAIL", "max_drop[group]": "PASS"}
    assert verdicts["max_drop[label]"]["reason"].startswith("label 0 ")
    accuracy = checks["parts"]["accuracy"]
    parts = {row["name"]: row for row in accuracy["by_label"] if row["name"]}
    assert list(parts) == ["0", "1", "2", "3"]
    assert sum(row["n"] for row in parts.values()) == N
    fewer_right = sum(row["drop"] * row["n"] / 100.0 for row in parts.values())
    assert fewer_right == pytest.approx(2 * accuracy["lost"] - accuracy["discordant"])
    assert max(parts, key=lambda label: parts[label]["drop"]) == "0"
    assert [row["name"] for row in accuracy["by_group"]] == ["day", "night"]
    assert "worst labels 0: 100.00 -> " in " ".join(output(result).split())
    assert checks["whole"]["accuracy"]["by_label"] == []
    assert checks["whole"]["accuracy"]["p_value"] is None, "groups that no limit is on are clusters"


def test_a_part_that_is_no_output_is_named_before_anything_runs(pytester: pytest.Pytester) -> None:
    """A slip of a reserved word names the nearest, when tests are collected."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester, data=DATA)
    (pytester.path / "test_model.py").unlink()
    result, checks = run_marks(pytester, {"typo": "max_drop={'overal': 5.0}"})
    assert not checks
    assert "did you mean 'overall'?" in output(result)


@pytest.mark.parametrize(
    ("limit", "data", "words"),
    [
        ("label", "return Dataset.from_arrays(x, x[:, 0], calibration=40)", "max_drop limits each label"),
        (
            "group",
            "return Dataset.from_arrays(x, y, calibration=40)",
            "max_drop limits each group, and quant_data has none",
        ),
    ],
)
def test_a_limit_on_what_the_data_does_not_say_is_an_error(
    pytester: pytest.Pytester, limit: str, data: str, words: str
) -> None:
    """The message says what to give, which then works."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester, data=data)
    (pytester.path / "test_model.py").unlink()
    _, checks = run_marks(pytester, {"it": f"max_drop={{{limit!r}: 90.0}}"})
    assert checks["it"]["status"] == "ERROR"
    assert words in checks["it"]["message"]
    assert "Dataset.from_arrays(inputs, labels, groups=groups)" in checks["it"]["message"]
