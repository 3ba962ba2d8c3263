"""Evaluation on workers of Dask, real processes on the loopback: the outputs are those of one process, or an error."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import numpy as np
import psutil
import pytest
from distributed import LocalCluster, Security

from pytest_quant.backends import get_backend
from pytest_quant.data import Batch, open_data
from pytest_quant.errors import BuildError, UsageError
from pytest_quant.measure import workers as measured
from pytest_quant.measure.batching import OpenEngine
from pytest_quant.measure.build import BuiltEngine
from pytest_quant.measure.outputs import Chunk, run_over
from pytest_quant.measure.steps import Steps
from pytest_quant.measure.workers import Workers
from pytest_quant.spec import Dataset, EngineSpec, Model
from tests.integration.projects import output, run_project_apart, write_project
from tests.support import models
from tests.support.dask_cluster import DaskCluster, dask_cluster
from tests.support.measuring import leading

LOCAL = "local:2"
N = 4 * 256
STRICT = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
"""A worker that dies is an error."""


def quiet() -> Steps:
    """Return steps that show nothing."""
    return Steps(lambda _: None)


class Subject:
    """An engine with its data, and what two workers and one process make of it.

    Attributes
    ----------
    here : runs of batches in this process while the workers had it.
    """

    def __init__(self, folder: Path, model: Path, samples: np.ndarray, held: ExitStack) -> None:
        backend = get_backend("ort")
        spec = EngineSpec("ort", "fp32", None, Model.from_onnx(model))
        self.folder = folder
        folder.mkdir()
        backend.build(spec, None, folder)
        built = BuiltEngine(spec, backend, folder, "key", "built", "", None, None, None)
        engine = held.enter_context(built.open())
        self.opened = replace(leading(engine, 32), built=built)
        self.data = open_data(Dataset.from_arrays(samples), engine.signature)
        self.here = 0

    def alone(self) -> list[Chunk]:
        """Run all samples in this process."""
        return list(run_over(self.opened, self.data))

    def spread(self, workers: Workers, at_range: Callable[[int], None] = lambda _: None) -> list[Chunk]:
        """Run all samples on `workers`; `at_range` is called with the number of each batch when it is read."""
        outer = self

        class Watched:
            n = outer.data.n

            def batches(self, size: int, *, pad: bool) -> Iterator[Batch]:
                for number, batch in enumerate(outer.data.batches(size, pad=pad)):
                    at_range(number)
                    yield batch

        taken: OpenEngine = workers.take_engine(self.opened)
        return list(run_over(taken, Watched()))  # type: ignore[arg-type]


@pytest.fixture
def subject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Subject]:
    """A classifier over four ranges of samples; runs in this process are counted."""
    with ExitStack() as held:
        model = models.select_first(tmp_path / "model.onnx")
        made = Subject(tmp_path / "engine", model, models.samples(N)[0], held)
        own = vars(measured)["run_batches"]

        def counted(engine: Any, batches: list[Batch]) -> Any:
            made.here += len(batches)
            return own(engine, batches)

        monkeypatch.setattr(measured, "run_batches", counted)
        yield made


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """The scheduler of the tests that leave it alive."""
    with dask_cluster(tmp_path_factory.mktemp("scheduler"), **STRICT) as started:
        yield started


@pytest.fixture
def cluster(scheduler: DaskCluster) -> Iterator[DaskCluster]:
    """The same, with workers that end with the test."""
    with ExitStack() as held:
        yield replace(scheduler, _held=held)


@pytest.fixture
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """A scheduler to lose."""
    with dask_cluster(tmp_path_factory.mktemp("lost"), **STRICT) as started:
        yield started


@pytest.fixture(scope="module")
def local() -> Iterator[Workers]:
    """Two workers of this machine, for the tests that do not ask how they begin and end."""
    with Workers(LOCAL, quiet()) as workers:
        yield workers
    assert workers.notes == ()


def assert_same(ours: list[Chunk], theirs: list[Chunk]) -> None:
    """Compare every bit of two evaluations, and where their chunks end."""
    assert [(chunk.start, chunk.n) for chunk in ours] == [(chunk.start, chunk.n) for chunk in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.outputs["y"].tobytes() == other.outputs["y"].tobytes()


def test_outputs_are_those_of_one_process(subject: Subject) -> None:
    """No batch is run in the process that asks while there are workers, and none of them is left running."""
    before = psutil.Process().children()
    with Workers(LOCAL, quiet()) as workers:
        assert_same(subject.spread(workers), subject.alone())
        assert subject.here == 0
        assert len(psutil.Process().children()) >= 2 + len(before)
    assert workers.notes == ()
    started = [child for child in psutil.Process().children() if child not in before]
    assert not [child for child in started if "resource_tracker" not in " ".join(child.cmdline())]
    assert_same(subject.spread(workers), subject.alone())
    assert subject.here == N // 32


def test_the_ranges_of_a_killed_worker_are_run_again(subject: Subject, local: Workers) -> None:
    """By the other one, or by the one that takes its place."""

    def kill(number: int) -> None:
        if number == 26:
            assert local._client is not None
            os.kill(next(iter(local._client.run(os.getpid).values())), signal.SIGKILL)

    assert_same(subject.spread(local, kill), subject.alone())
    assert (local.notes, subject.here) == ((), 0)


def test_without_its_scheduler_the_run_goes_on(subject: Subject, own_cluster: DaskCluster) -> None:
    """In this process, from the range that the workers did not give; the note says so, and is shown."""
    own_cluster.add_worker()
    shown: list[str] = []
    with Workers(own_cluster.address, Steps(shown.append)) as workers:
        chunks = subject.spread(workers, lambda number: own_cluster.process.kill() if number == 26 else None)
    assert_same(chunks, subject.alone())
    assert [note.partition(":")[0] for note in workers.notes] == [
        "the evaluation went on in this process alone, without tcp"
    ]
    assert workers.notes[0] in shown
    assert subject.here > 0


def test_a_scheduler_that_hangs_is_lost(
    subject: Subject, own_cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked whether it is there when a range takes long."""
    monkeypatch.setattr(measured, "_ANSWERS_WITHIN_S", 2.0)
    own_cluster.add_worker()

    def stop(number: int) -> None:
        if number == 26:
            own_cluster.process.send_signal(signal.SIGSTOP)

    try:
        with Workers(own_cluster.address, quiet()) as workers:
            assert_same(subject.spread(workers, stop), subject.alone())
    finally:
        own_cluster.process.send_signal(signal.SIGCONT)
    assert len(workers.notes) == 1


def test_a_scheduler_that_is_not_there_costs_a_note(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried once for a check, and not again for its second engine."""
    monkeypatch.setattr(measured, "_ANSWERS_WITHIN_S", 0.2)
    with Workers("tcp://127.0.0.1:9", quiet()) as workers:
        for _ in range(2):
            assert_same(subject.spread(workers), subject.alone())
    assert len(workers.notes) == 1


def test_a_scheduler_with_certificates_is_reached_by_tls(subject: Subject) -> None:
    """As the guide names it first, with the certificates of Dask's configuration, and without them by nobody."""
    security = Security.temporary()
    ours = {f"distributed.comm.tls.client.{name}": getattr(security, f"tls_client_{name}") for name in ("cert", "key")}
    ours["distributed.comm.tls.ca-file"] = security.tls_ca_file
    one = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(host="127.0.0.1", security=security, **one) as cluster:
        address = cluster.scheduler_address
        assert address.startswith("tls://")
        with dask.config.set(ours), Workers(address, quiet()) as workers:
            assert_same(subject.spread(workers), subject.alone())
        assert (workers.notes, subject.here) == ((), 0)
        with Workers(address, quiet()) as workers:
            subject.spread(workers)
        assert len(workers.notes) == 1


def test_a_scheduler_without_workers_costs_a_note(
    subject: Subject, cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for workers that never come."""
    monkeypatch.setattr(measured, "_COMES_WITHIN_S", 0.2)
    with Workers(cluster.address, quiet()) as workers:
        assert_same(subject.spread(workers), subject.alone())
    assert len(workers.notes) == 1


def test_workers_of_other_versions_are_refused(subject: Subject, cluster: DaskCluster) -> None:
    """With both versions: those are not the outputs of the engine under test."""
    metadata = cluster.folder / "packages" / "numpy-1.0.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 1.0\n", "utf-8")
    cluster.add_worker(packages=metadata.parents[1])
    with (
        Workers(cluster.address, quiet()) as workers,
        pytest.raises(UsageError, match=rf"tcp://\S+ has numpy 1\.0, where pytest has {np.__version__}"),
    ):
        subject.spread(workers)


INGREDIENTS = """
from pytest_quant.backends.ort import OrtBackend
own = OrtBackend.ingredients
OrtBackend.ingredients = lambda self, spec: own(self, spec) | {"instruction set": "of another processor"}
"""
ABSENT = """
from pytest_quant.backends import Availability
from pytest_quant.backends.ort import OrtBackend
OrtBackend.availability = lambda *_: Availability(False, reason="onnxruntime is not installed")
"""


@pytest.mark.parametrize(
    ("preload", "words"),
    [
        (INGREDIENTS, "builds with instruction set of another processor, where pytest has"),
        (ABSENT, "cannot run the engine: backend 'ort' cannot run here: onnxruntime is not installed"),
    ],
    ids=["instructions", "runtime"],
)
def test_a_worker_that_is_not_alike_is_refused(
    subject: Subject, cluster: DaskCluster, preload: str, words: str
) -> None:
    """Before it runs a range; a runtime that is not installed there is no reason to skip the test here."""
    cluster.add_worker(preload)
    with Workers(cluster.address, quiet()) as workers, pytest.raises(UsageError, match=words):
        subject.spread(workers)


def test_a_worker_on_another_machine_is_sent_the_files(subject: Subject, cluster: DaskCluster) -> None:
    """Here the model and its engine are gone before the worker opens them."""
    cluster.add_worker("from pytest_quant.measure import workers\nworkers._all_there = lambda _: False\n")
    expected = subject.alone()

    def remove(number: int) -> None:
        if number == 16:  # read behind the first two ranges, with which the engine was sent
            model = subject.opened.spec.model.path
            assert model is not None
            model.unlink()
            shutil.rmtree(subject.folder)

    with Workers(cluster.address, quiet()) as workers:
        assert_same(subject.spread(workers, remove), expected)
    assert (workers.notes, subject.here) == ((), 0)


ENDING = """
import os
from pytest_quant.measure import workers
workers.run_batches = lambda *_: os._exit(1)
"""


def test_a_range_that_kills_its_workers_is_an_error(subject: Subject, cluster: DaskCluster) -> None:
    """Of the engine, with the samples: in this process it would have ended the run."""
    cluster.add_worker(ENDING)
    with (
        Workers(cluster.address, quiet()) as workers,
        pytest.raises(BuildError, match=r"a run of ort-fp32 of model ends the process .*, on samples 0 to 255"),
    ):
        subject.spread(workers)


def test_the_error_of_a_run_is_that_of_one_process(tmp_path: Path, local: Workers) -> None:
    """With the samples of the batch in it."""
    graph = "(int64[n] x) => (float[n, 4] y) { y = Gather(table, x) }"
    model = models.parsed(tmp_path / "model.onnx", graph, table=np.eye(4, dtype=np.float32))
    indices = np.arange(N) % 4
    indices[700] = 9
    messages = []
    with ExitStack() as held:
        subject = Subject(tmp_path / "engine", model, indices, held)
        for run in (subject.alone, lambda: subject.spread(local)):
            with pytest.raises(BuildError, match="on samples 672 to 703") as caught:
                run()
            messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_an_error_of_the_data_is_no_loss_of_workers(subject: Subject, local: Workers) -> None:
    """It ends the evaluation as it does in one process; the samples that were read are not taken for all of them."""

    def fail(number: int) -> None:
        if number == 20:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        subject.spread(local, fail)
    assert local.notes == ()


def test_a_small_set_starts_nothing(subject: Subject) -> None:
    """One range: to start workers takes longer than to run it."""
    subject.data = subject.data.some(256)
    with Workers(LOCAL, quiet()) as workers:
        assert_same(subject.spread(workers), subject.alone())
        assert workers._client is None
    assert subject.here == 8


WATCHED = """
import psutil
from pytest_quant.measure import timing, workers

own, runs, times = workers.run_batches, [], timing.time_check

def counted(engine, batches):
    runs.extend(batches)
    return own(engine, batches)

def alone(*args):
    own = [child.cmdline() for child in psutil.Process().children(recursive=True)]
    print("alive while timing:", sum("resource_tracker" not in " ".join(line) for line in own), "run here:", len(runs))
    return times(*args)

workers.run_batches, timing.time_check = counted, alone
"""
LARGE = """
    x = np.tile(x, (12, 1))
    return Dataset.from_arrays(x + np.arange(len(x), dtype=np.float32)[:, None] / 1e6, np.tile(y, 12), calibration=40)
"""
OWN_FIGURES = ("build_s", "calibration_s", "build_memory_mb", "run_memory_mb")


def test_the_record_is_that_of_one_process_and_latency_is_alone(pytester: pytest.Pytester) -> None:
    """Every figure of accuracy and coverage, both engines anew each time; no worker lives while engines are timed."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester, data=LARGE.strip())
    conftest = pytester.path / "conftest.py"
    conftest.write_text(conftest.read_text("utf-8") + WATCHED, "utf-8")
    records = []
    for options in ((), (f"--quant-workers={LOCAL}",)):
        result, (record,) = run_project_apart(
            pytester, *options, "-s", "--quant-with-latency", "--quant-max-time=0.2", f"--quant-cache=c{len(options)}"
        )
        assert result.ret == 0, output(result)
        for name in OWN_FIGURES:
            del record["resources"][name]
        del record["latency"], record["verdicts"], record["cost"]
        records.append(record)
    assert records[0] == records[1]
    result.stdout.fnmatch_lines(["*alive while timing: 0 run here: 0"])


def test_workers_of_xdist_do_not_start_their_own(pytester: pytest.Pytester) -> None:
    """A scheduler that all of them share is what to name."""
    write_project(pytester)
    result = pytester.runpytest_subprocess("-n", "2", f"--quant-workers={LOCAL}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*leave -n out, or name one scheduler for all of them*tls://HOST:8786*"])
