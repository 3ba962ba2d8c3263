"""Processes of the parts: bounded in time, their output in a file as it comes, so that what is killed still tells."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
_LAST_WORDS_S = 15.0


def run(
    command: Sequence[str],
    limit_s: float,
    *,
    home: Path | None = None,
    folder: Path = ROOT,
    environ: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `command` for at most `limit_s`, and return what it wrote, also where it was ended.

    It is asked to end as by Ctrl-C, which lets pytest write its summary and its JUnit, and then ended with all that it
    started.

    Parameters
    ----------
    home : a file name without suffix; standard output goes to ``.log`` and standard error to ``.err`` beside it.
    folder : where it runs.
    environ : its environment; this process's where there is none given.
    """
    with _files(home) as (log, errors):
        with log.open("w") as out, errors.open("w") as err:
            own = {**(os.environ if environ is None else environ), "PYTHONUNBUFFERED": "1"}
            process = subprocess.Popen(
                command, cwd=folder, env=own, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
            late = ""
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                late = f"it did not end within {limit_s:.0f} s"
                _end(process)
            except BaseException:
                _end(process)
                raise
        said = [file.read_text("utf-8", errors="replace") for file in (log, errors)]
        if not said[1]:
            errors.unlink()
    return subprocess.CompletedProcess(command, process.returncode or bool(late), said[0], said[1] + late)


@contextmanager
def _files(home: Path | None) -> Iterator[tuple[Path, Path]]:
    if home is not None:
        home.parent.mkdir(parents=True, exist_ok=True)
        yield home.with_suffix(".log"), home.with_suffix(".err")
        return
    with TemporaryDirectory(prefix="pytest-quant-gpu-") as folder:
        yield Path(folder, "log"), Path(folder, "err")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LAST_WORDS_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
