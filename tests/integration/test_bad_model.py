"""A model that is missing, broken or wrong is an error in set-up that names it, never a skip or a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.integration.projects import output, run_project, write_project
from tests.support import models


def _nothing(path: Path) -> None:
    """Leave the model missing."""


def _truncated(path: Path) -> None:
    models.select_first(path)
    path.write_bytes(path.read_bytes()[:100])


def _text(path: Path) -> None:
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")


def _external_missing(path: Path) -> None:
    models.with_external_data(path, "weights.bin")


def _external_outside(path: Path) -> None:
    (path.parent.parent / "outside.bin").write_bytes(bytes(4 * models.FEATURES * models.CLASSES))
    models.with_external_data(path, "../outside.bin")


def _unknown_operator(path: Path) -> None:
    models.unknown_operator(path)


def _with_nan(path: Path) -> None:
    model = onnx.load(models.select_first(path))
    (weight,) = model.graph.initializer
    values = numpy_helper.to_array(weight).copy()
    values[2, 1] = np.nan
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    onnx.save_model(model, path)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_nothing, ["model.onnx", "not"]),
        (_truncated, ["model.onnx"]),
        (_text, ["model.onnx", "ONNX"]),
        (_external_missing, ["weights.bin"]),
        (_external_outside, ["outside.bin", "folder"]),
        (_unknown_operator, ["Frobnicate"]),
        (_with_nan, ["weight 'weight'", "NaN", "1 of 32 numbers", "exclude=['scores']"]),
    ],
)
def test_a_bad_model_is_a_clear_error(
    pytester: pytest.Pytester, spoil: Callable[[Path], None], words: list[str]
) -> None:
    """One error, exit code 1, the cause by name, the next step, and a record of status ERROR."""
    folder = pytester.path
    spoil(folder / "model.onnx")
    write_project(pytester)
    result, checks = run_project(pytester)
    result.assert_outcomes(errors=1)
    text = output(result)
    assert result.ret == 1
    assert all(word in text for word in words), text
    assert "next:" in text
    assert "Traceback" not in text
    assert [check["status"] for check in checks] == ["ERROR"]
    assert checks[0]["accuracy"] is None


def test_a_candidate_that_gives_nan_fails_with_the_sample(pytester: pytest.Pytester) -> None:
    """A NaN where the reference is finite is a failure, not a skipped sample."""
    models.select_first(pytester.path / "model.onnx")
    models.log_of_input(pytester.path / "broken.onnx")
    write_project(pytester, mark="quantized='broken.onnx', min_coverage=0, min_agreement=0")
    result, checks = run_project(pytester)
    result.assert_outcomes(failed=1)
    assert checks[0]["status"] == "FAIL"
    assert "outputs" in [verdict["limit"] for verdict in checks[0]["verdicts"] if verdict["status"] == "FAIL"]
    assert "sample" in output(result)


def test_a_missing_output_is_an_error_that_names_it(pytester: pytest.Pytester) -> None:
    """A quantized model with one output of two is never compared on that one alone."""
    models.select_first(pytester.path / "model.onnx", outputs=2)
    models.select_first(pytester.path / "half.onnx")
    write_project(pytester, mark="quantized='half.onnx', max_drop=1.0")
    result, _ = run_project(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*missing: z*"])
    assert result.ret == 1


def test_a_gpu_provider_asked_of_the_cpu_wheel_is_an_error(pytester: pytest.Pytester) -> None:
    """What asked for CUDA never runs on the CPU in silence."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester, mark="options={'provider': 'CUDAExecutionProvider'}")
    result, checks = run_project(pytester)
    assert result.ret != 0
    assert "CUDAExecutionProvider" in output(result)
    assert "PASS" not in [check["status"] for check in checks]
