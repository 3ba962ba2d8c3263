"""Data and models that cannot be trusted are errors before anything is measured; odd ones that are right are measured.

Each kind is one test of a project that is run once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.integration.projects import output, run_marks, run_project, write_project
from tests.support import models

CONFTEST = """
import numpy as np
import pytest
from pytest_quant import Dataset


def given():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 8)).astype(np.float32)
    return x, x[:, :4].argmax(axis=1)


def loader(x, y, shuffle):
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    return DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=16, shuffle=shuffle)


@pytest.fixture
def quant_model():
    return "model.onnx"
"""
FIXTURE = """

@pytest.fixture
def {name}():
    x, y = given()
    {data}
"""
GOOD = "return Dataset.from_arrays(x, y, calibration=40)"
TEXTS = "return Dataset.from_arrays(x, ['class ' + str(i) for i in y], calibration=40)"
ANNOTATED = "return Dataset.from_iterable([(r, {'best': [i], 'scores': r[:4]}) for r, i in zip(x, y)], calibration=40)"
UNLABELLED = "return Dataset.from_arrays(x, calibration=40)"
NAMED = "lambda o, y: ['class ' + str(row.argmax()) == label for row, label in zip(o, y)]"
NEAR = "lambda o, y: [abs(row - label['scores']).max() < 0.5 for row, label in zip(o, y)]"
OWN = "metric=__import__('pytest_quant').Metric({}, name='own'), max_drop=10.0"

BAD_DATA: dict[str, tuple[str, str, list[str]]] = {
    "wrong_dtype": ("return Dataset.from_arrays(x.astype(np.float64), y, calibration=40)", "", ["float64", "float32"]),
    "nan": ("x[57, 3] = np.nan; return Dataset.from_arrays(x, y, calibration=40)", "", ["57"]),
    "labels_out_of_range": ("y[3] = 4; return Dataset.from_arrays(x, y, calibration=40)", "", ["label", "0 to 3"]),
    "no_calibration_data": ("return Dataset.from_arrays(x, y)", "", ["calibration"]),
    "one_shot_iterator": ("return Dataset.from_iterable(iter([(x[0], 0)]))", "", ["iterator"]),
    "shuffling_loader": ("return Dataset.from_loader(loader(x, y, True), calibration=40)", "", ["shuffl"]),
    "no_labels": (UNLABELLED, "", ["max_drop needs labels"]),
    "labels_of_a_metric": (TEXTS, "metric='top1'", ["'top1' cannot read these labels", "labels of type str"]),
    "no_metric_for_texts": (TEXTS, "", ["max_drop needs a metric here", "labels of type str"]),
}
"""By name: the data, more of the mark, and what the message must say."""


def _truncated(path: Path) -> None:
    models.select_first(path)
    path.write_bytes(path.read_bytes()[:100])


def _external_outside(path: Path) -> None:
    (path.parent.parent / "outside.bin").write_bytes(bytes(4 * models.FEATURES * models.CLASSES))
    models.with_external_data(path, "../outside.bin")


def _with_nan(path: Path) -> None:
    model = onnx.load(models.select_first(path))
    (weight,) = model.graph.initializer
    values = numpy_helper.to_array(weight).copy()
    values[2, 1] = np.nan
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    onnx.save_model(model, path)


BAD_MODELS: dict[str, tuple[Callable[[Path], object], str, list[str]]] = {
    "missing": (lambda _: None, "", ["missing.onnx", "not"]),
    "truncated": (_truncated, "", ["truncated.onnx"]),
    "text": (lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\n"), "", ["text.onnx", "ONNX"]),
    "no_weights": (lambda path: models.with_external_data(path, "weights.bin"), "", ["weights.bin"]),
    "weights_outside": (_external_outside, "", ["outside.bin", "folder"]),
    "unknown_operator": (models.unknown_operator, "", ["Frobnicate"]),
    "weight_is_nan": (_with_nan, "", ["refused to quantize weight_is_nan", "scale issue"]),
    "half": (lambda path: models.select_first(path, outputs=2), "quantized='model.onnx'", ["missing: z"]),
}
"""By name of the file: who writes it, more of the mark, and what the message must say."""


def _write(pytester: pytest.Pytester, data: dict[str, str]) -> None:
    fixtures = "".join(FIXTURE.format(name=name, data=code) for name, code in data.items())
    (pytester.path / "conftest.py").write_text(CONFTEST + FIXTURE.format(name="good", data=GOOD) + fixtures)
    models.select_first(pytester.path / "model.onnx")


def test_what_is_wrong_is_a_clear_error(pytester: pytest.Pytester) -> None:
    """One error in set-up for each, exit code 1, what was wrong and the next step, no traceback, a record of it."""
    _write(pytester, {name: code for name, (code, _, _) in BAD_DATA.items()})
    for name, (write, _, _) in BAD_MODELS.items():
        write(pytester.path / f"{name}.onnx")
    marks = {name: f"data={name!r}, max_drop=5.0, {more}" for name, (_, more, _) in BAD_DATA.items()}
    marks |= {
        name: f"data='good', model='{name}.onnx', max_drop=5.0, {more}" for name, (_, more, _) in BAD_MODELS.items()
    }
    result, checks = run_marks(pytester, marks)
    result.assert_outcomes(errors=len(marks))
    assert result.ret == 1
    assert "Traceback" not in output(result)
    for name, words in {name: words for name, (_, _, words) in (BAD_DATA | BAD_MODELS).items()}.items():
        check = checks[name]
        assert (check["status"], check["accuracy"]) == ("ERROR", None), name
        assert [word for word in words if word not in check["message"]] == [], (name, check["message"])
        assert "next:" in check["message"], name


def test_what_is_odd_and_right_is_measured(pytester: pytest.Pytester) -> None:
    """The reference is right by construction wherever there is a score, and no sample is counted twice or lost."""
    data = {"texts": TEXTS, "annotated": ANNOTATED, "unlabelled": UNLABELLED}
    data["steady"] = "return Dataset.from_loader(loader(x, y, False), calibration=40)"
    _write(pytester, data)
    models.select_first(pytester.path / "seven.onnx", batch=7)
    marks = {
        "texts": f"data='texts', {OWN.format(NAMED)}",
        "annotated": f"data='annotated', {OWN.format(NEAR)}",
        "unlabelled": "data='unlabelled', min_agreement=80, min_sqnr_db=10, min_cosine=0.9, max_abs_error=1.0",
        "steady": "data='steady', max_drop=5.0",
        "seven": "data='good', model='seven.onnx', max_drop=5.0",
        "threads": "data='good', max_drop=5.0, options={'threads': 2}",
    }
    result, checks = run_marks(pytester, marks)
    result.assert_outcomes(passed=len(marks))
    accuracy = {name: check["accuracy"] for name, check in checks.items()}
    assert {name: outcome["n"] for name, outcome in accuracy.items()} == dict.fromkeys(marks, 80)
    assert {outcome["reference"] for name, outcome in accuracy.items() if name != "unlabelled"} == {100.0}
    assert (accuracy["unlabelled"]["metric"], accuracy["unlabelled"]["drop"]) == (None, None)
    assert (checks["steady"]["threads"], checks["threads"]["threads"]) == (1, 2)


def test_what_stands_in_for_samples_is_the_first_suspect(pytester: pytest.Pytester) -> None:
    """A model may give NaN for the numbers that ``pytest-quant init`` draws; no file is broken by them."""
    data = {name: f"return Dataset.{name}(-x * x, calibration=40)" for name in ("placeholder", "from_arrays")}
    _write(pytester, data)
    models.log_of_input(pytester.path / "log.onnx")
    whole = (pytester.path / "model.onnx").read_bytes()
    (pytester.path / "broken.onnx").write_bytes(whole[: len(whole) // 2])
    marks = {"placeholder": "model='log.onnx', data='placeholder'", "arrays": "model='log.onnx', data='from_arrays'"}
    _, checks = run_marks(pytester, marks | {"file": "model='broken.onnx', data='placeholder'"})
    messages = {name: check["message"] for name, check in checks.items()}
    assert "placeholder is a placeholder" in messages["placeholder"]
    assert "return real samples there first" in messages["placeholder"]
    assert "NaN" in messages["arrays"]
    assert "placeholder" not in messages["arrays"]
    assert "is not a whole ONNX file" in messages["file"]
    assert "placeholder" not in messages["file"]


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
