"""Functions in the place of engines: a marked test in a run of pytest, from the mark to the record."""

from __future__ import annotations

import pytest

from tests.integration.projects import output, run_marks, run_project, run_project_apart

CONFTEST = """
import time
import numpy as np
import pytest
from pytest_quant import Dataset, Model

WEIGHTS = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
STEP = np.abs(WEIGHTS).max() / 7
ROUNDED = (np.round(WEIGHTS / STEP) * STEP).astype(np.float32)
X = np.random.default_rng(1).normal(size=(100, 8)).astype(np.float32)


@pytest.fixture
def quant_data():
    return Dataset.from_arrays(X, (X @ WEIGHTS).argmax(axis=1))


@pytest.fixture
def fp16():
    return Model.from_callable(lambda x: x @ WEIGHTS, version="1")


@pytest.fixture
def int4():
    def candidate(x):
        time.sleep(0.002)
        return x @ ROUNDED

    return Model.from_callable(candidate)


@pytest.fixture
def refuses():
    def refusing(x):
        if (x[:, 0] == X[77, 0]).any():
            raise ConnectionError("no route to host")
        return x @ ROUNDED

    return Model.from_callable(refusing)


@pytest.fixture
def hangs():
    return Model.from_callable(lambda x: time.sleep(60))


@pytest.fixture
def other_outputs():
    return Model.from_callable(lambda x: {"a": x, "b": x})
"""
BOTH = "backend='callable', model='fp16', quantized='int4'"


def test_functions_are_compared_and_timed(pytester: pytest.Pytester) -> None:
    """Nothing is built and nothing is claimed: no precision, no coverage, no size, no launch apart."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        f"import pytest\n\n@pytest.mark.quant({BOTH}, max_drop=30, max_latency_ms=1.0)\ndef test_slow(): pass\n"
    )
    timing = ("--quant-with-latency", "--quant-max-time=1", "--quant-launches=2")
    result, (check,) = run_project_apart(pytester, *timing)
    result.assert_outcomes(failed=1)
    assert [(verdict["limit"], verdict["status"]) for verdict in check["verdicts"]] == [
        ("max_drop", "PASS"),
        ("max_latency_ms", "FAIL"),
    ]
    assert (check["backend"], check["precision"], check["scheme"], check["reference"]) == (
        "callable",
        None,
        None,
        "callable",
    )
    assert 0.0 < check["accuracy"]["candidate"] < 100.0 == check["accuracy"]["reference"]
    assert check["latency"]["speedup"] < 0.5
    assert "callables are timed in this process only" in " ".join(check["latency"]["notes"])
    assert check["coverage"]["pct"] is None
    measured = {name for name, figure in check["resources"].items() if figure is not None}
    assert measured == {"plan_of", "device"}
    notes = " ".join((*check["notes"], *check["coverage"]["notes"]))
    for words in ("where a callable runs", "what a callable runs", "the reference callable of fp16 computes in"):
        assert words in notes


def test_only_what_has_a_version_is_kept(pytester: pytest.Pytester) -> None:
    """The reference has one, and is not run again; turned round, nothing is known of it the next time."""
    pytester.makeconftest(CONFTEST)
    marks = {"kept": f"{BOTH}, max_drop=30", "lost": "backend='callable', model='int4', quantized='fp16', max_drop=30"}
    for expected in ("built", "hit"):
        _, checks = run_marks(pytester, marks)
        assert checks["kept"]["cache"] == {"reference": expected}
        assert checks["lost"]["cache"] == {"reference": "built"}
        assert checks["lost"]["builds"]["reference outputs"].startswith("callable of candidate has no version")


def test_what_fails_is_an_error_that_names_the_sample(pytester: pytest.Pytester) -> None:
    """Of a batch, its samples; other outputs, and a backend that runs no functions, are errors too."""
    pytester.makeconftest(CONFTEST)
    marks = {
        "refuses": "backend='callable', quantized='refuses'",
        "other": "backend='callable', quantized='other_outputs'",
        "ort": "backend='ort'",
    }
    result, checks = run_marks(pytester, {name: f"model='fp16', max_drop=1.0, {mark}" for name, mark in marks.items()})
    result.assert_outcomes(errors=3)
    assert {check["status"] for check in checks.values()} == {"ERROR"}
    refused = checks["refuses"]["message"]
    assert "callable refusing failed, on samples 64 to 95" in refused
    assert "ConnectionError: no route to host" in refused
    assert checks["other"]["message"].startswith("the candidate has 2 outputs, the reference 1")
    assert checks["ort"]["message"].startswith("backend 'ort' runs no functions, and model 'fp16' is one")


def test_the_next_step_of_a_lone_function_is_the_whole_step(pytester: pytest.Pytester) -> None:
    """A mark that names a function alone says both keys at once, and a mark with both passes."""
    pytester.makeconftest(CONFTEST.replace("def int4", "def my_engine"))
    followed = "backend='callable', model='fp16', quantized='my_engine', max_drop=30"
    _, checks = run_marks(pytester, {"alone": "model='fp16', max_drop=30", "followed": followed})
    step = "next: write backend='callable', and quantized='NAME' of a fixture that returns the function to judge"
    assert step in checks["alone"]["message"]
    assert checks["followed"]["status"] == "PASS"
    result, _ = run_marks(pytester, {"half": "backend='callable', model='fp16', max_drop=30"})
    assert "next: write quantized='my_engine', a fixture that returns Model.from_callable(" in output(result)


def test_a_function_that_hangs_is_ended_and_the_run_goes_on(pytester: pytest.Pytester) -> None:
    """In a process of its own, which a limit of 3 s on any step could end."""
    pytester.makeconftest(CONFTEST)
    mark = "backend='callable', model='fp16', quantized='hangs', precision='int4', max_drop=1.0"
    source = f"import pytest\n\n@pytest.mark.quant({mark})\ndef test_hangs(): pass\n\ndef test_after(): pass\n"
    pytester.makepyfile(source)
    result, (check,) = run_project_apart(pytester, "--quant-step-timeout=3")
    result.assert_outcomes(errors=1, passed=1)
    assert check["status"] == "ERROR"
    assert check["message"].startswith("a run of callable-int4-given of hangs did not end within 3 s, on sample 0")
    assert (check["precision"], check["scheme"]) == ("int4", "given")


REFUSED = [
    (f"{BOTH}, min_coverage=50", "min_coverage limits what cannot be read back of a callable"),
    (f"{BOTH}, precision='int4', min_coverage=50", "min_coverage limits what cannot be read back of a callable"),
    (f"{BOTH}, max_size_mb=3", "max_size_mb limits what"),
    (f"{BOTH}, max_build_s=3", "max_build_s limits what"),
    (f"{BOTH}, max_memory_mb=3", "max_memory_mb limits what"),
    (f"{BOTH}, max_energy_mj=3", "max_energy_mj limits what"),
    ("backend='callable', model='fp16', max_drop=1.0", "the mark names one only"),
    (f"{BOTH}, reference_precision='fp16'", "has no fp16 to compare latency with"),
    (f"{BOTH}, scheme='static'", "so its scheme is given"),
]
"""Marks, with the words of their errors."""


def test_what_a_mark_cannot_ask_of_functions(pytester: pytest.Pytester) -> None:
    """It is refused at collection."""
    pytester.makeconftest(CONFTEST)
    result, checks = run_marks(pytester, {f"refused_{number}": mark for number, (mark, _) in enumerate(REFUSED)})
    result.assert_outcomes(errors=1)
    assert checks == {}
    errors = output(result).split("::test_refused_")[1:]
    for number, (_, words) in enumerate(REFUSED):
        assert any(error.startswith(f"{number}: ") and words in error for error in errors), words


LANGUAGE = """
import numpy as np
import pytest
from pytest_quant import Dataset, Model

QUESTIONS = [f"what is {i} + 1" for i in range(120)]
IDS = np.random.default_rng(0).integers(0, 12, (40, 7))
LOGITS = np.random.default_rng(1).normal(size=(12, 12)).astype(np.float32)


@pytest.fixture
def questions():
    return Dataset.from_arrays(QUESTIONS, [f"it is {i + 1}" for i in range(120)])


@pytest.fixture
def fp16():
    return Model.from_callable(lambda texts: [f"it is {int(text.split()[2]) + 1} " for text in texts], version="1")


@pytest.fixture
def int4():
    # A third of the answers has one wrong word of three.
    def answers(texts):
        numbers = [int(text.split()[2]) for text in texts]
        return [f"it is {number + (1 if number % 3 else 2)}" for number in numbers]

    return Model.from_callable(answers)


@pytest.fixture
def tokens():
    return Dataset.from_arrays({"ids": IDS[:, :-1]}, IDS[:, 1:])


@pytest.fixture
def logits():
    return Model.from_callable(lambda batch: {"logits": LOGITS[batch["ids"]]}, version="1")


@pytest.fixture
def halved():
    return Model.from_callable(lambda batch: {"logits": LOGITS[batch["ids"]] / 2})
"""


def test_texts_and_scores_of_tokens(pytester: pytest.Pytester) -> None:
    """Exact match and its drop, words that agree, perplexity with its ratio, divergence and the same top token."""
    pytester.makeconftest(LANGUAGE)
    texts = "backend='callable', model='fp16', quantized='int4', data='questions'"
    scores = "backend='callable', model='logits', quantized='halved', data='tokens'"
    marks = {
        "texts": f"{texts}, metric='exact_match', max_drop=10, min_agreement=80",
        "scores": f"{scores}, metric='perplexity', min_ratio=0.5, min_agreement=90",
    }
    _, checks = run_marks(pytester, marks)
    accuracy = checks["texts"]["accuracy"]
    assert (accuracy["reference"], accuracy["candidate"]) == pytest.approx((100.0, 100 * 2 / 3))
    assert accuracy["agreement_pct"] == pytest.approx(100 * (1 - 1 / 9))
    assert [verdict["status"] for verdict in checks["texts"]["verdicts"]] == ["FAIL", "PASS"]
    accuracy = checks["scores"]["accuracy"]
    assert accuracy["better"] == "lower"
    assert accuracy["agreement_pct"] == 100.0
    assert accuracy["kl"] > 0.05
    (ratio, agreement) = checks["scores"]["verdicts"]
    assert ratio["observed"] == pytest.approx(accuracy["reference"] / accuracy["candidate"])
    assert agreement["status"] == "PASS"


STREAM = """
import time
import pytest
from pytest_quant import Dataset, Model


def streaming(first_s, each_s):
    def answer(prompts):
        (prompt,) = prompts
        time.sleep(first_s)
        yield "it"
        for word in (" is", " " + prompt):
            time.sleep(each_s)
            yield word

    return Model.from_callable(answer, name="answers", version="1", streams=True)


@pytest.fixture
def slow():
    return streaming(0.004, 0.003)


@pytest.fixture
def fast():
    return streaming(0.002, 0.001)


@pytest.fixture
def quant_data():
    return Dataset.from_arrays([str(i) for i in range(3)], [f"it is {i}" for i in range(3)])
"""


def test_tokens_are_timed(pytester: pytest.Pytester) -> None:
    """To the first and per token, prompt by prompt; each limit has its verdict, and each time its columns."""
    pytester.makeconftest(STREAM)
    mark = (
        "backend='callable', model='slow', quantized='fast', metric='exact_match', min_agreement=30, batch_size=4, "
        "max_ttft_ms=30, max_tpot_ms='0.5 ms'"
    )
    pytester.makepyfile(f"import pytest\n\n@pytest.mark.quant({mark})\ndef test_stream(): pass\n")
    timing = ("--quant-with-latency", "--quant-max-time=3", "--quant-columns=ttft,tpot")
    result, (check,) = run_project(pytester, *timing)
    verdicts = {verdict["limit"]: verdict["status"] for verdict in check["verdicts"]}
    assert (verdicts["max_ttft_ms"], verdicts["max_tpot_ms"]) == ("PASS", "FAIL")
    assert check["batch_size"] == 1
    assert check["accuracy"]["candidate"] == 100.0
    (ttft, tpot) = check["latency"]["tokens"]
    assert (ttft["name"], tpot["name"]) == ("ttft", "tpot")
    assert 2.0 <= ttft["candidate_ms"] < ttft["reference_ms"]
    assert 1.0 <= tpot["candidate_ms"] < tpot["reference_ms"]
    assert "first token ms" in output(result)
    assert "time per token" in output(result)
