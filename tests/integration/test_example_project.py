"""The example project finds what it is written to find, for the reason it gives."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.example import EXAMPLE, ExampleRun, copy_example, run_example

CHECKS = (
    "test_digits.py::test_int8_is_as_good_and_all_of_it_is_int8",
    "test_digits.py::test_int8_is_faster_in_batches",
    "test_digits.py::test_int8_is_less_than_half_the_size",
    "test_ladder.py::test_ladder[ort-fp32]",
    "test_ladder.py::test_ladder[ort-int8-static]",
    "test_ladder.py::test_ladder[ort-int8-dynamic]",
    "test_magika.py::test_static_matmul_and_conv",
    "test_magika.py::test_static_everything",
    "test_magika.py::test_dynamic",
)
CAUGHT = {"test_magika.py::test_static_everything": "max_drop", "test_magika.py::test_dynamic": "min_speedup"}
TIMED = ("min_speedup", "max_latency_ms")
DATA_DIGEST = "ca9d8c63896a6ba7f12171f464777a9a24cbe70abec263881d28488d7637e3a0"
"""SHA-256 of the file-type data: tokens, then labels, as little-endian integers."""


def verdicts(check: dict[str, Any]) -> dict[str, str]:
    """Return the status of each limit."""
    return {verdict["limit"]: verdict["status"] for verdict in check["verdicts"]}


def facts(run: ExampleRun) -> dict[str, dict[str, str]]:
    """Return the verdicts of every check that do not depend on time."""
    return {
        name: {limit: status for limit, status in verdicts(check).items() if limit not in TIMED}
        for name, check in run.checks.items()
    }


def test_the_suite_passes_with_every_check_judged_once(first_run: ExampleRun) -> None:
    """Nine checks, none skipped, and the run is green because the two bad ones fail as expected."""
    assert first_run.returncode == 0, first_run.output
    assert Counter(check["nodeid"] for check in first_run.document["checks"]) == Counter(CHECKS)
    assert "7 passed, 2 xfailed" in first_run.output


@pytest.mark.parametrize("name", [name for name in CHECKS if name not in CAUGHT])
def test_a_good_engine_is_within_every_limit(first_run: ExampleRun, name: str) -> None:
    """Only a limit on time may be left open by a noisy machine."""
    for limit, status in verdicts(first_run.checks[name]).items():
        assert status == "PASS" or (limit in TIMED and status == "INCONCLUSIVE"), (limit, status)


@pytest.mark.parametrize("name", CAUGHT)
def test_a_bad_engine_breaks_the_one_limit_it_should(first_run: ExampleRun, name: str) -> None:
    """The check is FAIL on that limit alone, with every other one kept."""
    check = first_run.checks[name]
    assert check["status"] == "FAIL"
    assert [limit for limit, status in verdicts(check).items() if status != "PASS"] == [CAUGHT[name]]


def test_all_operators_in_int8_lose_half_of_the_files(first_run: ExampleRun) -> None:
    """The broken limit shows the drop itself, far beyond what is allowed."""
    check = first_run.checks["test_magika.py::test_static_everything"]
    (broken,) = [verdict for verdict in check["verdicts"] if verdict["status"] == "FAIL"]
    assert broken["observed"] == check["accuracy"]["drop"]
    assert broken["observed"] > 20


def test_the_dynamic_scheme_is_slower_and_as_good(first_run: ExampleRun) -> None:
    """The broken limit shows the speedup itself, and the accuracy is no reason to fail."""
    check = first_run.checks["test_magika.py::test_dynamic"]
    (broken,) = [verdict for verdict in check["verdicts"] if verdict["status"] == "FAIL"]
    assert broken["observed"] == check["latency"]["speedup"]
    assert broken["observed"] < 0.7
    assert check["accuracy"]["drop"] <= 0.5


def test_the_ladder_is_one_table(first_run: ExampleRun) -> None:
    """Each of its three engines is a row of the table at the end."""
    rows = [line for line in first_run.output.splitlines() if line.startswith("test_ladder[") and "PASS" in line]
    for engine in ("fp32]", "int8-static]", "int8-dynamic]"):
        assert len([row for row in rows if engine in row]) == 1, first_run.output


def test_a_run_leaves_nothing_but_its_own_folder(example: Path, first_run: ExampleRun) -> None:
    """Beside what was asked for, only ``.quant`` is new, and the folder that pytest-benchmark makes in each run."""
    expected = {path.name for path in EXAMPLE.iterdir()} | {".quant", "run.json", "__pycache__", ".benchmarks"}
    assert {path.name for path in example.iterdir()} <= expected


def test_the_data_is_the_same_on_every_machine() -> None:
    """The files come from packages of exact versions, so their digest is a constant."""
    program = (
        "import hashlib, file_types; d = file_types.load_labelled_files(); "
        "print(hashlib.sha256(d.features.astype('<i4').tobytes() + d.labels.astype('<i8').tobytes()).hexdigest())"
    )
    result = subprocess.run([sys.executable, "-c", program], cwd=EXAMPLE, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == DATA_DIGEST


LANGUAGE = {
    "language_model/test_letters.py::test_int4_perplexity": {"min_ratio": "PASS"},
    "language_model/test_letters.py::test_int2_perplexity": {"min_ratio": "FAIL"},
    "language_model/test_letters.py::test_int4_answers_in_time": {"max_ttft_ms": "PASS", "max_tpot_ms": "PASS"},
    "language_model/test_lm_eval.py::test_greedy_int4": {"max_drop": "PASS"},
    "language_model/test_lm_eval.py::test_greedy_int2": {"max_drop": "FAIL"},
    "language_model/test_lm_eval.py::test_sampled_int4": {"max_drop": "INCONCLUSIVE"},
}
"""The folder of language models: what becomes of each limit. Answers in time have a hundred times what they need."""


@pytest.fixture(scope="module")
def language_run(tmp_path_factory: pytest.TempPathFactory) -> ExampleRun:
    """One run of that folder, by the command of README.md."""
    return run_example(copy_example(tmp_path_factory.mktemp("language")), "language_model")


def test_language_models_are_judged_as_they_are_said_to_be(language_run: ExampleRun) -> None:
    """Two bits are caught, four pass, and thirty sampled answers are too few to tell."""
    assert language_run.returncode == 0, language_run.output
    judged = {name: verdicts(check) for name, check in language_run.checks.items()}
    assert judged == LANGUAGE
    assert "4 passed, 2 xfailed" in language_run.output


def test_logged_answers_are_caught_by_the_task_and_left_open_by_the_interval(language_run: ExampleRun) -> None:
    """The reasons name the worst of the tasks, and the interval that the limit lies in; the two runs both count."""
    name = "language_model/test_lm_eval.py::test_{}"
    broken, open_ = (language_run.checks[name.format(each)] for each in ("greedy_int2", "sampled_int4"))
    assert broken["verdicts"][0]["reason"].startswith("carry 83.33 pp is above 5.0 pp")
    assert [task["n"] for task in broken["accuracy"]["by_task"]] == [24, 24, 48]
    assert "encloses 2.0 pp" in open_["verdicts"][0]["reason"]
    assert (open_["accuracy"]["reference_runs"], open_["accuracy"]["candidate_runs"]) == (2, 2)


def test_logs_are_small_and_tell_of_no_machine() -> None:
    """At most 150 kB in all; no path but those of the prompts, and no file that describes a processor."""
    logs = [file for file in (EXAMPLE / "language_model" / "runs").rglob("*") if file.is_file()]
    assert {file.suffix for file in logs} == {".jsonl"}
    assert sum(file.stat().st_size for file in logs) <= 150_000
    assert [file for file in logs if "/" in file.read_text("utf-8")] == []
