"""Another program, which knows nothing of pytest-quant, finds the figures of the example."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.example import ExampleRun, environment

SCRIPT = Path(__file__).with_name("example_figures.py")
N_DIGITS, N_FILES, N_CALIBRATION = 1797, 477, 100
DIGITS = {"calibration": list(range(0, 2 * N_CALIBRATION, 2)), "evaluation": list(range(1, N_DIGITS, 2))}
SPACED = [round(i * (N_FILES - 1) / (N_CALIBRATION - 1)) for i in range(N_CALIBRATION)]
FILES = {"calibration": SPACED, "evaluation": sorted(set(range(N_FILES)) - set(SPACED))}
"""Samples by index: of the digits as the example splits them, of the files as ``calibration=100`` does."""

WEIGHTED = ["Conv", "ConvTranspose", "Gemm", "MatMul"]
PASSING = ["Clip", "Flatten", "MaxPool", "Relu", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"]
STATIC = {"scheme": "static", "op_types": WEIGHTED + PASSING, "per_channel": True}
DYNAMIC = {"scheme": "dynamic", "op_types": ["Attention", "LSTM", "MatMul"], "per_channel": True}
CHOSEN = ["Conv", "MatMul"]

REQUESTS: dict[str, dict[str, Any]] = {
    "test_digits.py::test_int8_is_as_good_and_all_of_it_is_int8": {"subject": "digits", "recipe": STATIC, **DIGITS},
    "test_ladder.py::test_ladder[ort-int8-dynamic]": {"subject": "digits", "recipe": DYNAMIC, **DIGITS},
    "test_magika.py::test_static_matmul_and_conv": {
        "subject": "magika",
        "recipe": STATIC | {"op_types": CHOSEN},
        **FILES,
    },
    "test_magika.py::test_static_everything": {"subject": "magika", "recipe": STATIC | {"op_types": None}, **FILES},
    "test_magika.py::test_dynamic": {"subject": "magika", "recipe": DYNAMIC | {"op_types": CHOSEN}, **FILES},
}
EXACT = ("n", "reference", "candidate", "drop")
CLOSE = ("agreement_pct", "sqnr_db")
TOLERANCE = 1e-6
NORMAL_FORM = 1e-3
"""Ours is quantized from the normal form of the graph, which is some 85 bytes longer for one of the two models."""


@pytest.fixture(scope="module")
def independent(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """The figures by the independent program, which is run once for all checks."""
    program = subprocess.run(
        [sys.executable, SCRIPT],
        input=json.dumps(list(REQUESTS.values())),
        cwd=tmp_path_factory.mktemp("independent"),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert program.returncode == 0, program.stderr
    return dict(zip(REQUESTS, json.loads(program.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("name", REQUESTS)
def test_figures_equal_those_of_the_independent_program(
    first_run: ExampleRun, independent: dict[str, dict[str, float]], name: str
) -> None:
    """Accuracy is equal exactly; agreement, SQNR and coverage to one in a million, sizes to one in a thousand."""
    expected = independent[name]
    check = first_run.checks[name]
    accuracy, resources = check["accuracy"], check["resources"]
    assert {key: accuracy[key] for key in EXACT} == {key: expected[key] for key in EXACT}
    for key in CLOSE:
        assert accuracy[key] == pytest.approx(expected[key], rel=TOLERANCE), key
    assert resources["reference_size_mb"] == pytest.approx(expected["reference_size_mb"], rel=TOLERANCE)
    assert resources["size_mb"] == pytest.approx(expected["size_mb"], rel=NORMAL_FORM)
    assert check["coverage"]["pct"] == pytest.approx(expected["coverage_pct"], rel=TOLERANCE)
