"""What a bucket that breaks costs a run: ``python -m tests.benchmarks.remote_cache [RUNS [OPTION...]]``.

Prints a table. Each run is a pytest of its own with these options, an empty local cache and the timing of latency
off, beside runs without a bucket.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.integration.projects import CONFTEST, DATA, read_checks
from tests.support import models
from tests.support.example import ROOT, environment
from tests.support.object_store import BUCKET, FAULTS, our_store, s3_environment

_TESTS = """
import pytest


@pytest.mark.quant(max_drop=5.0)
def test_good(): pass


@pytest.mark.quant(max_size_mb=1e-6, options={"threads": 1})
def test_broken_limit(): pass
"""


def run(folder: Path, cache: str, *options: str, address: str = "") -> tuple[float, list[object]]:
    """Run the project with an empty folder, and return its seconds and what was judged."""
    document = folder / "run.json"
    document.unlink(missing_ok=True)
    plain = ("-q", "-p", "no:cacheprovider", "--quant-no-latency", "--quant-no-history", f"--quant-json={document}")
    began_s = time.perf_counter()
    subprocess.run(
        (sys.executable, "-m", "pytest", *plain, f"--quant-cache={folder / cache}", *options),
        cwd=folder,
        env=os.environ | environment() | {"PYTHONPATH": str(ROOT)} | (s3_environment(address) if address else {}),
        stdout=subprocess.DEVNULL,
        check=False,
        timeout=300,
    )
    took_s = time.perf_counter() - began_s
    return took_s, [
        (check["nodeid"], check["status"], check["accuracy"], check["verdicts"]) for check in read_checks(document)
    ]


def main(runs: int, options: list[str]) -> None:
    """Print a row for each fault: equal verdicts, and the seconds above the median run without a bucket."""
    with tempfile.TemporaryDirectory() as name, our_store() as (store, address):
        folder = Path(name)
        models.select_first(folder / "model.onnx")
        (folder / "conftest.py").write_text(CONFTEST.format(model="model.onnx", data=DATA))
        (folder / "test_model.py").write_text(_TESTS)
        (folder / "pytest.ini").write_text("[pytest]\n")
        remote = f"--quant-cache-remote=s3://{BUCKET}/main"
        run(folder, "first", remote, address=address)
        filled = dict(store.objects)
        alone = [run(folder, f"alone-{number}", *options) for number in range(runs)]
        usual_s = statistics.median(took_s for took_s, _ in alone)
        print(f"{len(filled)} objects; without a bucket {usual_s:.1f} s, at most {max(alone)[0]:.1f} s")  # noqa: T201
        print(f"{'the bucket':<20}{'runs':>5}{'same verdicts':>15}{'median + s':>12}{'most + s':>10}")  # noqa: T201
        for fault in ("", *FAULTS):
            outcome = []
            for number in range(runs):
                store.objects.clear()
                store.objects.update(filled)
                store.fault = fault
                outcome.append(run(folder, f"{fault}-{number}", remote, *options, address=address))
            more_s = [took_s - usual_s for took_s, _ in outcome]
            same = sum(judged == alone[0][1] for _, judged in outcome)
            figures = f"{statistics.median(more_s):>12.1f}{max(more_s):>10.1f}"
            print(f"{fault or 'works':<20}{runs:>5}{same:>15}{figures}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:])
