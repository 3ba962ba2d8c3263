"""Evaluation on many workers of Dask: ranges of batches go out, and their outputs come back in the order of the set.

The data is read and the outputs are compared in this process, as without workers, so that a record is the same. What is
elsewhere is the engine: Dask moves it to the workers, closes it when this process needs it no more, and runs the ranges
of a worker that died again. Where the workers are lost, this process goes on alone.

Nothing of Dask lives beyond the ``with`` block of `Workers`: what is timed afterwards is alone.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import tempfile
import threading
import weakref
from asyncio import CancelledError
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from pytest_quant.backends import Engine, Outputs
from pytest_quant.backends.runtime import installed_version, root_cause
from pytest_quant.data import Batch
from pytest_quant.errors import BackendUnavailable, BuildError, QuantError, UsageError
from pytest_quant.measure.batching import OpenEngine, run_batches
from pytest_quant.measure.build import CANNOT_BE_PACKED, BuiltEngine, map_models, pack, unpack
from pytest_quant.measure.engines import usable_backend
from pytest_quant.measure.steps import Steps
from pytest_quant.spec import Model

if TYPE_CHECKING:
    from distributed import Client, Future

    _Sent: TypeAlias = tuple[list[Batch], Future[list[Outputs]] | None]

LOCAL = "local:"

_ANSWERS_WITHIN_S = 10.0
_COMES_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a worker opens an engine from, and what proves that the worker is like the process that sends it.

    Attributes
    ----------
    built : the `BuiltEngine`, packed.
    versions, ingredients : of that process, see `versions` and `Backend.ingredients`.
    files : contents of the files of the engine and its models by path, where some worker does not see them; else empty.
    limit_s : longest run in seconds; 0 for no bound.
    """

    built: bytes
    versions: Mapping[str, str]
    ingredients: Mapping[str, str]
    files: Mapping[Path, bytes]
    limit_s: float

    def open(self, folder: Path) -> Engine:
        """Open the engine, in `folder` if its files were sent. Raises `UsageError` if this process differs."""
        self._refuse("has", versions(), self.versions)
        try:
            built: BuiltEngine = unpack(self.built)
            built.backend.before_loading(built.spec)
            usable_backend(built.spec, built.backend)
        except (BackendUnavailable, UsageError) as error:
            raise _refusal(f"cannot run the engine: {error.what}") from error
        if self.files:
            built = _move_files(built, self.files, folder)
        self._refuse("builds with", built.backend.ingredients(built.spec), self.ingredients)
        return built.open(Steps(lambda _: None, self.limit_s).watch)

    @staticmethod
    def _refuse(has: str, here: Mapping[str, str], there: Mapping[str, str]) -> None:
        differing = sorted(name for name in {*here, *there} if here.get(name) != there.get(name))
        if differing:
            pairs = (f"{name} {here.get(name)}, where pytest has {there.get(name)}" for name in differing)
            raise _refusal(f"{has} {'; '.join(pairs)}")


def _refusal(what: str) -> UsageError:
    from distributed import get_worker

    return UsageError(
        "workers of other versions are refused: their outputs could be others",
        value=f"{get_worker().address} {what}",
        allowed="Python, numpy, pytest-quant, the runtime and the processor's instructions as in this process",
        fix="install the same versions there, or leave --quant-workers out",
    )


def versions() -> dict[str, str]:
    """Return the versions of this process that decide what it reads and computes, but for the runtime's."""
    return {"python": platform.python_version()} | {name: installed_version(name) for name in ("numpy", "pytest-quant")}


def _move_files(built: BuiltEngine, files: Mapping[Path, bytes], folder: Path) -> BuiltEngine:
    """Write `files` below `folder`, and return the engine that lies there."""

    def below(path: Path) -> Path:
        return folder / path.relative_to(path.anchor)

    def model_below(model: Model) -> Model:
        return model if model.path is None else replace(model, path=below(model.path))

    for path, content in files.items():
        below(path).parent.mkdir(parents=True, exist_ok=True)
        below(path).write_bytes(content)
    below(built.folder).mkdir(parents=True, exist_ok=True)
    return replace(built, spec=map_models(built.spec, model_below), folder=below(built.folder))


class EngineElsewhere:
    """An engine in the process of a worker, opened with its first range; a copy for another worker is opened there."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._alone = threading.Lock()
        self._engine: Engine | None = None

    def __reduce__(self) -> tuple[type[Self], tuple[Recipe]]:
        return type(self), (self._recipe,)

    def run(self, batches: list[Batch]) -> list[Outputs]:
        """Run the batches; one range at a time. Raises `QuantError` as the engine does, or as `Recipe.open`."""
        with self._alone:
            if self._engine is None:
                folder = tempfile.TemporaryDirectory(prefix="pytest-quant-worker-", ignore_cleanup_errors=True)
                weakref.finalize(self, folder.cleanup)
                self._engine = self._recipe.open(Path(folder.name))
                weakref.finalize(self, self._engine.close)
            return run_batches(self._engine, batches)

    def run_file(self, file: Path) -> list[Outputs]:
        """Run the batches in a file of the process that started this one, as `run` does."""
        return self.run(unpack(file.read_bytes()))


def _all_there(paths: list[Path]) -> bool:
    return all(map(os.path.exists, paths))


class Workers:
    """The workers of one check; they are started, or connected to, when the first large set is evaluated.

    Parameters
    ----------
    place : ``local:N`` for N processes of this machine, which end with the block, or the address of a scheduler.
    steps : shows what is waited for.

    Attributes
    ----------
    notes : why this process went on alone, each a sentence.
    """

    def __init__(self, place: str, steps: Steps) -> None:
        self.notes: tuple[str, ...] = ()
        self._place = place
        self._steps = steps
        self._held = ExitStack()
        self._client: Client | None = None
        self._folder: Path | None = None
        self._ahead = 0
        self._dashboard = ""
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End local workers, or the connection; engines are run in this process from now on."""
        self._is_over, self._client = True, None
        self._held.close()

    def take_engine(self, opened: OpenEngine) -> OpenEngine:
        """Return an engine that these workers run; if they cannot, `opened` with a note that says why."""
        why = self._why_not(opened.built)
        if not why:
            return replace(opened, workers=self)
        return replace(opened, notes=(*opened.notes, f"{opened.spec.id} is evaluated in this process alone: {why}"))

    def _why_not(self, built: BuiltEngine) -> str:
        if built.backend.offer.is_opaque:
            return "no other process has the function"
        if any(model is not None and model.module is not None for model in (built.spec.model, built.spec.quantized)):
            return "no other process has the torch module"
        if self._place.startswith(LOCAL) and built.backend.device != "cpu":
            return f"workers of this machine would share {built.backend.device}"
        try:
            pack(built)
        except CANNOT_BE_PACKED as error:
            return f"it cannot be sent to another process, {error}"
        return ""

    def run(self, opened: OpenEngine, ranges: Iterator[list[Batch]]) -> Iterator[tuple[list[Batch], list[Outputs]]]:
        """Yield each range with the outputs of its batches, in order; less than two are run in this process.

        Parameters
        ----------
        opened : the engine.
        ranges : batches whose inputs are under the engine's names.

        Raises
        ------
        UsageError : a worker is of other versions.
        BuildError : a range ends the process of each worker that runs it.
        QuantError : as a run in this process.
        """
        first = list(islice(ranges, 2))
        engine = self._share(opened.built) if len(first) == 2 else None
        waiting: deque[_Sent] = deque()
        # Read outside of `_end_on_failure`: an error of the user's data is none of the workers'.
        for batches in chain(first, ranges):
            waiting.append((batches, None if engine is None else self._send(engine, batches)))
            if len(waiting) > self._ahead:
                yield self._next(opened, waiting)
        while waiting:
            yield self._next(opened, waiting)

    def _share(self, built: BuiltEngine) -> Future[EngineElsewhere] | None:
        """Return the engine as the workers have it; ``None`` if all workers are gone."""
        if self._is_over or self.notes:
            return None
        ingredients = built.backend.ingredients(built.spec)
        with self._end_on_failure(), self._steps.show(f"starting workers on {self._place}"):
            client = self._client = self._client or self._connect()
            files = [] if self._place.startswith(LOCAL) else _files_of(built)
            seen = not files or all(client.run(_all_there, files).values())
            contents = {} if seen else {path: path.read_bytes() for path in files}
            recipe = Recipe(pack(built), versions(), ingredients, contents, self._steps.limit_s)
            engine = client.submit(EngineElsewhere, recipe, pure=False)
            client.replicate([engine])  # a range goes to a worker that has what it needs
            # For each worker three ranges are sent and not yet compared: memory does not grow with the data.
            self._ahead = 3 * len(client.nthreads())
            self._dashboard = str(client.dashboard_link)  # asks the scheduler each time
            return engine
        return None

    def _connect(self) -> Client:
        from distributed import Client, LocalCluster, Security

        if not self._place.startswith(LOCAL):
            client = Client(self._place, timeout=_ANSWERS_WITHIN_S, set_as_default=False)
            self._held.enter_context(client)
            client.wait_for_workers(1, timeout=_COMES_WITHIN_S)
            return client
        cluster = LocalCluster(
            n_workers=int(self._place.removeprefix(LOCAL)),
            threads_per_worker=1,
            memory_limit=0,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            # A scheduler runs what it is sent, and any user of this machine can reach its port.
            security=Security.temporary(),
            # Workers that end in the middle of a heartbeat say so at length.
            silence_logs=logging.CRITICAL,
            # Takes a twentieth of each worker's time.
            config={"distributed.worker.profile.enabled": False},
        )
        self._held.enter_context(cluster)
        folder = tempfile.TemporaryDirectory(prefix="pytest-quant-ranges-", ignore_cleanup_errors=True)
        self._folder = Path(self._held.enter_context(folder))
        client = Client(cluster, set_as_default=False)
        self._held.enter_context(client)
        return client

    def _send(self, engine: Future[EngineElsewhere], batches: list[Batch]) -> Future[list[Outputs]] | None:
        with self._end_on_failure():
            if self._client is not None:
                bare = [replace(batch, labels=None) for batch in batches]
                if self._folder is None:
                    return self._client.submit(EngineElsewhere.run, engine, bare, pure=False)
                # A message is encrypted twice and passes through the scheduler, which is in this process.
                key = secrets.token_hex(8)
                (self._folder / key).write_bytes(pack(bare))
                return self._client.submit(EngineElsewhere.run_file, engine, self._folder / key, key=key, pure=False)
        return None

    def _next(self, opened: OpenEngine, waiting: deque[_Sent]) -> tuple[list[Batch], list[Outputs]]:
        """Return the first waiting range with its outputs, which this process makes if no worker does."""
        batches, future = waiting.popleft()
        with self._end_on_failure():
            if self._client is not None and future is not None:
                outputs = self._outcome(self._client, future, opened.built.name, batches)
                if self._folder is not None:
                    # Not sooner: where a worker dies with its outputs, the range is run again.
                    (self._folder / str(future.key)).unlink()
                return batches, outputs
        return batches, run_batches(opened.engine, batches)

    def _outcome(self, client: Client, future: Future[list[Outputs]], name: str, batches: list[Batch]) -> list[Outputs]:
        from distributed import KilledWorker, wait

        samples = f"samples {batches[0].start} to {batches[-1].start + batches[-1].n - 1}"
        scheduler: Any = client.scheduler
        with client.as_current(), self._steps.show(f"waiting for {samples} of {name}, {self._dashboard}"):
            while not future.done():
                try:
                    wait(future, timeout=_ANSWERS_WITHIN_S)
                except TimeoutError:
                    client.sync(scheduler.ncores, callback_timeout=_ANSWERS_WITHIN_S)
                    client.wait_for_workers(1, timeout=_COMES_WITHIN_S)
        try:
            outputs: list[Outputs] = future.result()
        except KilledWorker as error:
            raise BuildError(
                f"a run of {name} ends the process that it is in, on {samples}",
                value=f"{error.allowed_failures + 1} workers died",
                fix="see in the log of the system whether memory ran out; run these samples alone",
            ) from error
        return outputs

    @contextmanager
    def _end_on_failure(self) -> Iterator[None]:
        """End the work of the workers if the block fails by anything but an error of the engine."""
        try:
            yield
        except QuantError:
            raise
        except (Exception, CancelledError) as error:
            note = f"the evaluation went on in this process alone, without {self._place}: {root_cause(error)}"
            self.notes = (*self.notes, note)
            self._steps.notify(note)
            self._client, self._ahead = None, 0
            self._held.close()


def _files_of(built: BuiltEngine) -> list[Path]:
    """Return the files of an engine and of the models that it may be opened from."""
    # Here, because a third party's backend may do without the package that reads ONNX.
    from pytest_quant.backends.onnx_files import files_of

    files = [path for path in built.folder.rglob("*") if path.is_file()]
    for model in (built.spec.model, built.spec.quantized):
        if model is not None and model.path is not None:
            files += files_of(model.path) if model.path.suffix == ".onnx" else [model.path]
    return files
