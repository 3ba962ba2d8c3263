"""A detector and a text encoder through the real TensorRT-RTX, with the shapes of their data, as a user checks them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_quant.backends.trt import build
from pytest_quant.backends.trt.builder import LOG_FILE, BuildRequest, write_log
from pytest_quant.spec import Dataset
from tests.integration.projects import run_project
from tests.integration.trt_traps.deployed import bert, sentences, yolo
from tests.integration.trt_traps.networks import check_of, images, session_in

PICTURES = ((64, 64),) * 3 + ((96, 32), (160, 128))
"""Height and width: three alike, one narrow, one large."""

LENGTHS = (9, 9, 9, 3, 40)

CONFTEST = """
import pytest
from pathlib import Path
from pytest_quant import Dataset
from tests.integration.trt_traps.deployed import bert, sentences, yolo
from tests.integration.trt_traps.networks import images

@pytest.fixture
def detector():
    return str(yolo(Path(__file__).parent))

@pytest.fixture
def pictures():
    return Dataset.from_iterable(images({pictures}), calibration=images(((64, 64),) * 4, seed=1))

@pytest.fixture
def encoder():
    return str(bert(Path(__file__).parent))

@pytest.fixture
def texts():
    return Dataset.from_iterable(sentences({lengths}), calibration=sentences((9,) * 8, seed=1))
"""

TESTS = """
import pytest

RTX = dict(backend="trt-rtx", options={"compute_capability": "SM89"}, batch_size=4, min_coverage=99)

@pytest.mark.quant(model="detector", data="pictures", min_sqnr_db=20, **RTX)
def test_detector():
    pass

@pytest.mark.quant(model="encoder", data="texts", min_sqnr_db=60, **RTX)
def test_encoder():
    pass
"""


def built_for(folder: Path) -> set[tuple[str, str, str, str]]:
    """Return input, smallest, usual and largest shape of the engines in a cache, as the builder itself logged them."""
    line = re.compile(r"Name: (\w+), IOMode: Input,.*MinShape: (\S+), OptShape: (\S+), MaxShape: (\S+), Format")
    logs = list(folder.glob(f"engine/*/files/{LOG_FILE}"))
    assert len(logs) == 2, "the engine and the reference"
    first, second = ({match.groups() for match in line.finditer(file.read_text("utf-8"))} for file in logs)
    assert first == second
    return first  # type: ignore[return-value] # four groups


def test_a_detector_is_built_for_the_pictures(tmp_path: Path) -> None:
    """Each axis from its smallest to its largest, tuned for the commonest picture in the batch that is timed."""
    dataset = Dataset.from_iterable(images(PICTURES), calibration=images(((64, 64),) * 4, seed=1))
    with session_in(tmp_path) as session:
        found = session.measure(check_of(yolo(tmp_path), dataset))
    assert built_for(tmp_path / "cache") == {("images", "[1,3,64,32]", "[4,3,64,64]", "[32,3,160,128]")}
    assert (found.coverage.pct, found.coverage.unit, found.coverage.opaque_nodes) == (100.0, "MACs", 0)
    assert "built for (1, 3, 64, 32) to (32, 3, 160, 128) of 'images', usually (4, 3, 64, 64)" in found.engine.notes
    assert found.accuracy.simulated
    found.close()


def test_a_text_encoder_is_built_for_the_sentences(tmp_path: Path) -> None:
    """Both inputs of the commonest sentence, in the batch that is timed; products are weighed by their MACs."""
    dataset = Dataset.from_iterable(sentences(LENGTHS), calibration=sentences((9,) * 8, seed=1))
    with session_in(tmp_path) as session:
        found = session.measure(check_of(bert(tmp_path), dataset))
    assert built_for(tmp_path / "cache") == {(name, "[1,3]", "[4,9]", "[32,40]") for name in ("ids", "mask")}
    assert (found.coverage.pct, found.coverage.unit) == (100.0, "MACs")
    assert found.accuracy.simulated
    found.close()


def test_what_a_user_sees(pytester: pytest.Pytester) -> None:
    """INT8 coverage and simulated accuracy of both in the table; the shapes where a limit is broken."""
    pytester.makeconftest(CONFTEST.format(pictures=PICTURES, lengths=LENGTHS))
    pytester.makepyfile(test_models=TESTS)
    result, checks = run_project(pytester, "--quant-diagnose-time=0")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "test_detector *simulated * 100.00 * PASS",
            "test_encoder *simulated * 100.00 * FAIL",
            "SIMULATED: 2 checks judged by float simulation; nothing of them ran on the device",
        ]
    )
    result.stdout.fnmatch_lines("*built for (1, 3) to (32, 40) of 'ids', usually (4, 9)")
    assert {check["coverage"]["provider"] for check in checks} == {"TensorRT-RTX for SM89, simulated in float"}


def test_tensors_without_a_scale_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line in the builder's log, here one that is put there, becomes a note of the record, whatever the status is."""
    real = build.run_builder

    def with_a_warning(request: BuildRequest, name: str) -> None:
        real(request, name)
        log = (request.model.parent / LOG_FILE).read_text("utf-8")
        warning = "[WARNING] Missing scale and zero-point for tensor x, expect fall back to non-int8"
        write_log(request.model.parent, f"{log}\n{warning}")

    monkeypatch.setattr("pytest_quant.backends.trt.build.run_builder", with_a_warning)
    dataset = Dataset.from_iterable(sentences(LENGTHS), calibration=sentences((9,) * 8, seed=1))
    with session_in(tmp_path) as session:
        measured = session.measure(check_of(bert(tmp_path), dataset))
        record = session.judge(measured).record
    measured.close()
    assert any("1 tensor has no scale" in note for note in record.notes)
