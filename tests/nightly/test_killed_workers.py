"""A worker of an evaluation that dies at any moment changes nothing in the record."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from dataclasses import replace
from itertools import count
from pathlib import Path

import psutil
import pytest

from pytest_quant.cache import Cache
from pytest_quant.check_runner import CheckRunner
from pytest_quant.measure.build import Tools
from pytest_quant.measure.lock import DeviceLocks
from pytest_quant.measure.steps import Steps
from pytest_quant.measure.workers import Workers
from pytest_quant.record import Record
from pytest_quant.result import Resources
from pytest_quant.spec import Check, Dataset, EngineSpec, Limits, Model
from tests.support import models

TIMES = 20


def record_of(folder: Path, model: Path, workers: str) -> Record:
    """Evaluate both engines with nothing kept from before; what each run measures of itself is left out."""
    steps = Steps(lambda _: None)
    tools = Tools(Cache(folder), steps, DeviceLocks(steps.notify), workers)
    session = CheckRunner(tools, baseline=lambda _: None)
    samples, classes = models.samples(40_000)
    check = Check(
        nodeid="check",
        series_nodeid="check",
        candidate=EngineSpec("ort", "int8", "static", Model.from_onnx(model)),
        reference=EngineSpec("ort", "fp32", None, Model.from_onnx(model)),
        dataset=Dataset.from_arrays(samples, classes, calibration=100),
        limits=Limits(max_drop=5.0),
        latency=None,
        latency_off="not asked for",
    )
    measurement = session.measure_engines(check)
    measurement.close()
    return replace(session.judge(measurement).record, resources=Resources(), cost=None)


def test_twenty_killed_workers_leave_twenty_equal_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At random moments from when the workers have the engine of the reference to when they are ended."""
    seed = time.time_ns() % 2**32
    moments = random.Random(seed)  # noqa: S311 - not for secrets
    shared, ended = threading.Event(), threading.Event()
    lasted_s: list[float] = []
    killed: list[int] = []
    own_share, own_exit = Workers._share, Workers.__exit__

    def share(*args: object) -> object:
        future = own_share(*args)  # type: ignore[arg-type]
        shared.set()
        return future

    def leave(*args: object) -> None:
        ended.set()
        own_exit(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(Workers, "_share", share)
    monkeypatch.setattr(Workers, "__exit__", leave)

    def kill() -> None:
        """Kill one worker after a random part of the shortest run so far; a run may end before."""
        shared.wait()
        began_s = time.monotonic()
        if lasted_s and not ended.wait(moments.uniform(0.0, min(lasted_s))):
            here = [
                child for child in psutil.Process().children() if "resource_tracker" not in " ".join(child.cmdline())
            ]
            victim = moments.choice(here)
            os.kill(victim.pid, signal.SIGKILL)
            killed.append(victim.pid)
        ended.wait()
        lasted_s.append(time.monotonic() - began_s)

    def run(number: int) -> Record:
        shared.clear()
        ended.clear()
        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        record = record_of(tmp_path / f"cache{number}", model, "local:2")
        thread.join()
        return record

    model = models.select_first(tmp_path / "model.onnx", scale=0.7)
    expected = record_of(tmp_path / "cache", model, "")
    for number in count():
        assert run(number) == expected, f"seed {seed}, run {number}"
        if len(killed) == TIMES:
            break
