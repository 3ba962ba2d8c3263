"""A scheduler of Dask and its workers: processes of their own, on the loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.example import ROOT

_START_S = 120.0
_SCHEDULER = ("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show")
_WORKER = ("worker", "--nthreads", "1", "--nworkers", "1", "--memory-limit", "0", "--no-dashboard")


@dataclass(frozen=True, slots=True)
class DaskCluster:
    """A scheduler that runs, and what starts workers of it.

    Attributes
    ----------
    folder : an empty one, for what its processes write.
    process, address : of the scheduler.
    """

    folder: Path
    process: subprocess.Popen[bytes]
    address: str
    _held: ExitStack = field(default_factory=ExitStack)

    def add_worker(self, preload: str = "", packages: Path | None = None) -> None:
        """Start a worker under a nanny, and do not wait for it.

        Parameters
        ----------
        preload : code that the worker runs first.
        packages : folder whose packages it finds before ours.
        """
        # By its name, because a file is run more than once.
        name = f"preload_{len(list(self.folder.glob('preload_*')))}"
        (self.folder / f"{name}.py").write_text(preload, "utf-8")
        arguments = (*_WORKER, "--preload", name, "--local-directory", str(self.folder), self.address)
        path = os.pathsep.join(map(str, filter(None, (packages, self.folder, ROOT))))
        self._held.enter_context(_running(self.folder, arguments, path))


@contextmanager
def dask_cluster(folder: Path, **settings: str) -> Iterator[DaskCluster]:
    """Start a scheduler; it ends with the block, and its workers too. `settings` are variables of its environment."""
    file = folder / "scheduler.json"
    with _running(folder, (*_SCHEDULER, "--scheduler-file", str(file)), str(ROOT), **settings) as process:
        given_up = time.monotonic() + _START_S
        while not file.exists() or not file.read_text("utf-8").endswith("}"):
            assert process.poll() is None, (folder / "log").read_text("utf-8")
            assert time.monotonic() < given_up, "the scheduler of Dask has not started"
            time.sleep(0.01)
        cluster = DaskCluster(folder, process, json.loads(file.read_text("utf-8"))["address"])
        with cluster._held:
            yield cluster


@contextmanager
def _running(folder: Path, arguments: tuple[str, ...], path: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    command = (sys.executable, "-m", "dask", *arguments)
    environment = os.environ | settings | {"PYTHONPATH": path}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(_START_S)
