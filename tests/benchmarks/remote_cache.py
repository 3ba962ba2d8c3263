"""What a bucket that breaks costs a run: ``python -m tests.benchmarks.remote_cache [RUNS [OPTION...]]``.

Prints a table. Each run is a session of pytest in this process with these options, an empty local cache and the timing
of latency off; each is paired with one without a bucket, right before it.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from tests.integration.projects import CONFTEST, DATA, read_checks
from tests.support import models
from tests.support.object_store import BUCKET, FAULTS, our_store, s3_environment

_TESTS = """
import pytest


@pytest.mark.quant(max_drop=5.0)
def test_good(): pass


@pytest.mark.quant(max_size_mb=1e-6, options={"threads": 1})
def test_broken_limit(): pass
"""


def run(folder: Path, *options: str) -> tuple[float, list[object]]:
    """Run the project with an empty cache, and return its seconds and what was judged."""
    document, cache = folder / "run.json", folder / "cache"
    document.unlink(missing_ok=True)
    shutil.rmtree(cache, ignore_errors=True)
    plain = ("-q", "-p", "no:cacheprovider", "--quant-no-latency", "--quant-no-history", f"--quant-json={document}")
    began_s = time.perf_counter()
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        pytest.main([*plain, f"--rootdir={folder}", f"--quant-cache={cache}", *options, str(folder)])
    took_s = time.perf_counter() - began_s
    return took_s, [
        (check["nodeid"], check["status"], check["accuracy"], check["verdicts"]) for check in read_checks(document)
    ]


def main(runs: int, options: list[str]) -> None:
    """Print a row for each fault: equal verdicts, and the seconds above those of the run without a bucket."""
    with tempfile.TemporaryDirectory() as name, our_store() as (store, address):
        folder = Path(name)
        os.environ.update(s3_environment(address))
        models.select_first(folder / "model.onnx")
        (folder / "conftest.py").write_text(CONFTEST.format(model=str(folder / "model.onnx"), data=DATA))
        (folder / "test_model.py").write_text(_TESTS)
        (folder / "pytest.ini").write_text("[pytest]\n")
        remote = f"--quant-cache-remote=s3://{BUCKET}/main"
        run(folder, remote)
        filled = dict(store.objects)
        print(f"{len(filled)} objects")  # noqa: T201
        print(f"{'the bucket':<20}{'runs':>5}{'same verdicts':>15}{'median + s':>12}{'most + s':>10}")  # noqa: T201
        for fault in ("", *FAULTS):
            more_s, same = [], 0
            for _ in range(runs):
                alone_s, wanted = run(folder, *options)
                store.objects.clear()
                store.objects.update(filled)
                store.fault = fault
                took_s, judged = run(folder, remote, *options)
                more_s.append(took_s - alone_s)
                same += len(judged) == len(wanted) > 0 and judged == wanted
            figures = f"{statistics.median(more_s):>12.1f}{max(more_s):>10.1f}"
            print(f"{fault or 'works':<20}{runs:>5}{same:>15}{figures}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:])
