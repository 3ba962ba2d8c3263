"""Data that cannot be trusted is an error before anything is measured."""

from __future__ import annotations

import pytest

from tests.integration.projects import output, run_project, write_project
from tests.support import models

BAD = {
    "wrong dtype": ("return Dataset.from_arrays(x.astype(np.float64), y, calibration=40)", ["float64", "float32"]),
    "NaN in data": ("x[57, 3] = np.nan; return Dataset.from_arrays(x, y, calibration=40)", ["57"]),
    "labels out of range": ("y[3] = 4; return Dataset.from_arrays(x, y, calibration=40)", ["label", "0 to 3"]),
    "no calibration data": ("return Dataset.from_arrays(x, y)", ["calibration"]),
    "one-shot iterator": ("return Dataset.from_iterable(iter([(x[0], 0)]))", ["iterator"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_a_clear_error(pytester: pytest.Pytester, case: str) -> None:
    """One error, exit code 1, what was wrong and the next step, no traceback."""
    data, words = BAD[case]
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester, data=data)
    result, checks = run_project(pytester)
    text = output(result)
    result.assert_outcomes(errors=1)
    assert result.ret == 1
    assert all(word in text for word in words), text
    assert "next:" in text
    assert "Traceback" not in text
    assert [check["status"] for check in checks] == ["ERROR"]


def test_what_stands_in_for_samples_is_the_first_suspect(pytester: pytest.Pytester) -> None:
    """A model may give NaN for the numbers that ``pytest-quant init`` draws; it is not to be mended for their sake."""
    models.log_of_input(pytester.path / "model.onnx")
    for constructor, suspected in (("placeholder(-x * x", True), ("from_arrays(-x * x", False)):
        write_project(pytester, data=f"return Dataset.{constructor}, calibration=40)", mark="")
        result, checks = run_project(pytester)
        result.assert_outcomes(errors=1)
        assert "NaN" in output(result)
        assert ("quant_data is a placeholder" in output(result)) is suspected
        assert ("return real samples there first" in checks[0]["message"]) is suspected


def test_what_stands_in_for_samples_is_not_suspected_of_a_broken_file(pytester: pytest.Pytester) -> None:
    """No samples make half of a model whole."""
    whole = models.select_first(pytester.path / "model.onnx").read_bytes()
    (pytester.path / "model.onnx").write_bytes(whole[: len(whole) // 2])
    write_project(pytester, data="return Dataset.placeholder(x, calibration=40)", mark="")
    result, checks = run_project(pytester)
    result.assert_outcomes(errors=1)
    assert "is not a whole ONNX file" in checks[0]["message"]
    assert "placeholder" not in checks[0]["message"]


def test_max_drop_without_labels_is_a_usage_error(pytester: pytest.Pytester) -> None:
    """Agreement needs no labels; a drop does."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester, data="return Dataset.from_arrays(x, calibration=40)")
    result, _ = run_project(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*max_drop needs labels*"])


def test_without_labels_agreement_and_tensor_metrics_work(pytester: pytest.Pytester) -> None:
    """Unlabelled data still says how far the candidate is from the reference."""
    models.select_first(pytester.path / "model.onnx")
    write_project(
        pytester,
        data="return Dataset.from_arrays(x, calibration=40)",
        mark="min_agreement=80, min_sqnr_db=10, min_cosine=0.9, max_abs_error=1.0",
    )
    result, (check,) = run_project(pytester)
    result.assert_outcomes(passed=1)
    assert check["accuracy"]["metric"] is None
    assert check["accuracy"]["drop"] is None
    assert check["accuracy"]["agreement_pct"] >= 80


def test_calibration_batches_of_different_shapes_are_refused_by_histograms(pytester: pytest.Pytester) -> None:
    """Entropy calibration keeps histograms of equal batches; the message says which calibration takes others."""
    models.mean_over_time(pytester.path / "model.onnx")
    data = (
        "s = [(np.repeat(r[None], 2 + i % 3, 0), int(t)) for i, (r, t) in enumerate(zip(x, y))]; "
        "return Dataset.from_iterable(s, calibration=40)"
    )
    write_project(pytester, data=data, mark="calibration='entropy', max_drop=5.0")
    result, _ = run_project(pytester)
    result.assert_outcomes(errors=1)
    text = output(result)
    assert "shape" in text
    assert "minmax" in text


def test_a_static_batch_with_an_odd_last_part_counts_every_sample_once(pytester: pytest.Pytester) -> None:
    """80 samples in batches of 7 leave 3: padded to run, dropped to compare."""
    models.select_first(pytester.path / "model.onnx", batch=7)
    write_project(pytester)
    result, (check,) = run_project(pytester)
    result.assert_outcomes(passed=1)
    assert check["accuracy"]["n"] == 80
    assert check["accuracy"]["reference"] == 100.0


LOADER = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    loader = DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=16, shuffle={shuffle})
    return Dataset.from_loader(loader, calibration=40)
"""


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_shuffling_loader_is_an_error_and_a_steady_one_is_not(pytester: pytest.Pytester, shuffle: bool) -> None:
    """Pairs and caches would lie if the samples came in another order each time."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester, data=LOADER.format(shuffle=shuffle).strip())
    result, _ = run_project(pytester)
    if shuffle:
        result.assert_outcomes(errors=1)
        assert "shuffl" in output(result)
    else:
        result.assert_outcomes(passed=1)
