"""Launches: fresh processes that time, answer through all noise, end with their asker, and say what went wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from pytest_quant.backends.child_process import end_children
from pytest_quant.errors import LaunchError
from pytest_quant.measure.timing_process import TimingJob, TimingProcess, read_header
from pytest_quant.result import TimedSample
from pytest_quant.spec import LatencyPlan, Model
from tests.unit.measure.played_apart import FEEDS, SIGNATURE, PlayedBackend, played

ROOT = Path(__file__).parents[3]
PLAN = LatencyPlan(max_s=0.5, max_warmup_s=0.05, seed=3)


def saved(folder: Path, candidate: str, reference: str = "quiet") -> Path:
    """Save a check of two engines, each of which does what its name says."""
    file = folder / "check"
    TimingJob(played(reference), played(candidate), PLAN).save(file)
    return file


def launched() -> list[psutil.Process]:
    """Return the children of this process that time."""
    return [child for child in psutil.Process().children() if "timing_process" in " ".join(child.cmdline())]


@pytest.mark.parametrize("candidate", ["quiet", "noisy"])
def test_one_process_answers_all_that_is_asked(tmp_path: Path, candidate: str) -> None:
    """What its engines write anywhere reaches no answer, and no process is left."""
    with TimingProcess(saved(tmp_path, candidate)) as launch:
        (process,) = launched()
        first, second = launch.measure(PLAN), launch.measure(PLAN)
        block = launch.block(2, 5)
        assert launched() == [process]
    assert not psutil.pid_exists(process.pid)
    assert min(first.rounds, second.rounds) >= 1
    assert len(first.reference.runs_ns) == len(first.null.runs_ns) == len(first.candidate.runs_ns) == first.rounds
    assert len(block.runs_ns) == 5
    assert block.cold_ns > 0


def test_a_process_that_answers_comes_to_its_own_end(tmp_path: Path) -> None:
    """What runtimes do when they end is done; only one that does not end soon is ended by force."""
    with TimingProcess(saved(tmp_path, "ends"), cwd=tmp_path) as launch:
        launch.block(0, 1)
    assert (tmp_path / "ended").exists()


def test_the_description_comes_back_whole(tmp_path: Path) -> None:
    """With the very arrays; its first line can be read without the classes of any backend."""
    file = saved(tmp_path, "noisy")
    result = TimingJob.load(file)
    assert (result.reference.built.spec.precision, result.candidate.built.spec.precision) == ("quiet", "noisy")
    assert result.plan == PLAN
    assert (result.candidate.feeds["x"] == FEEDS["x"]).all()
    assert read_header(file) == ("played-noisy of net", ("cpu",), "")
    assert file.stat().st_mode & 0o077 == 0


def test_another_process_times_the_same_sample_and_says_so(tmp_path: Path) -> None:
    """Its shapes stand in the first line too, for whoever compares two descriptions."""
    sample = TimedSample(7, {"x": (2, 57)}, (8, 400))
    reference, candidate = (replace(played(name), sample=sample) for name in ("quiet", "noisy"))
    TimingJob(reference, candidate, PLAN).save(tmp_path / "check")
    assert read_header(tmp_path / "check")[2] == "x 2x57"
    with TimingProcess(tmp_path / "check") as launch:
        assert launch.measure(PLAN).sample == sample


def test_a_module_of_this_process_is_left_behind(tmp_path: Path) -> None:
    """What is written in its place are the inputs and outputs."""

    class OnlyHere:
        pass

    model = Model.from_torch(OnlyHere(), (OnlyHere(),), name="net")
    TimingJob(played("quiet", model=model), played("quiet"), PLAN).save(tmp_path / "check")
    loaded = TimingJob.load(tmp_path / "check").reference.built.spec.model
    assert (loaded.name, loaded.module, loaded.example_inputs, loaded.signature) == ("net", None, None, SIGNATURE)


def test_a_backend_of_this_process_only_is_refused(tmp_path: Path) -> None:
    """No process is started for it; the words say which check it is, and what holds all the same."""

    class OnlyHere(PlayedBackend):
        pass

    with pytest.raises(LaunchError, match=r"played-quiet of net can be timed in this process only(.|\n)*OnlyHere"):
        TimingJob(played("quiet", OnlyHere()), played("quiet"), PLAN).save(tmp_path / "check")
    assert not list(tmp_path.iterdir())


def test_an_engine_that_cannot_be_opened_there(tmp_path: Path) -> None:
    """The runtime's own error, with its next step; directory and environment are those that were given."""
    file, elsewhere = saved(tmp_path, "refuses"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    with (
        pytest.raises(LaunchError) as raised,
        TimingProcess(file, cwd=elsewhere, environment=os.environ | {"PLAYED": "7"}),
    ):
        pytest.fail("it has opened")
    assert raised.value.what == "opening played-refuses of net in a fresh process failed"
    assert raised.value.value == f"in {elsewhere} with 7\n  next: look there"
    assert not launched()


@pytest.mark.parametrize(
    ("candidate", "words"),
    [("dies in a run", "it died with signal 9: it wrote nothing"), ("raises in a run", "ZeroDivisionError")],
)
def test_a_process_that_dies(tmp_path: Path, candidate: str, words: str) -> None:
    """The error says how, also when it is asked once more."""
    with TimingProcess(saved(tmp_path, candidate)) as launch:
        for _ in range(2):
            with pytest.raises(LaunchError, match=words):
                launch.measure(PLAN)
    assert not launched()


@pytest.mark.parametrize(("candidate", "limit_s"), [("hangs", 0.2), ("hangs in a run", 4.0)])
def test_a_call_that_never_ends_is_ended(tmp_path: Path, candidate: str, limit_s: float) -> None:
    """At the limit, the process with it."""
    with (
        pytest.raises(LaunchError, match=f"it did not end within {limit_s:g} s"),
        TimingProcess(saved(tmp_path, candidate), limit_s=limit_s) as launch,
    ):
        launch.measure(PLAN)
    assert not launched()


def test_another_thread_can_end_it(tmp_path: Path) -> None:
    """As the steps of a run of pytest do."""
    with TimingProcess(saved(tmp_path, "hangs in a run")) as launch, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(launch.measure, PLAN)
        assert end_children()
        with pytest.raises(LaunchError, match="it died with signal 9"):
            waiting.result()


ASKER = """
import sys
from pathlib import Path
from pytest_quant.measure.timing_process import TimingProcess
from pytest_quant.spec import LatencyPlan

with TimingProcess(Path(sys.argv[1])) as launch:
    print("opened", flush=True)
    launch.measure(LatencyPlan())
"""


def test_a_killed_asker_leaves_no_process(tmp_path: Path) -> None:
    """Though the one that times never looks up from its call."""
    file = saved(tmp_path, "hangs in a run")
    asker = subprocess.Popen(
        [sys.executable, "-c", ASKER, str(file)], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ
    )
    assert asker.stdout is not None
    assert asker.stdout.readline() == "opened\n"
    (timing,) = psutil.Process(asker.pid).children()
    os.kill(asker.pid, signal.SIGKILL)
    asker.wait()
    asker.stdout.close()
    assert psutil.wait_procs([timing], timeout=60) == ([timing], [])


def test_a_python_that_cannot_be_started_is_named_and_may_be_let_run(tmp_path: Path) -> None:
    """A launcher that nobody may run yet is refused by its path, and starts once it may be run, as the advice says."""
    launcher = tmp_path / "python"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    file = saved(tmp_path, "quiet")
    with pytest.raises(LaunchError, match=f"{launcher} cannot be started") as caught:
        TimingProcess(file, python=str(launcher)).__enter__()
    assert caught.value.fix is not None
    assert caught.value.fix.startswith("let this user run it")
    launcher.chmod(0o700)
    with TimingProcess(file, python=str(launcher)) as launch:
        assert launch.block(0, 1).cold_ns > 0
