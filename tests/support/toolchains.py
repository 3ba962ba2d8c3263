"""The example's folder ``toolchains``: one run of it, shared by everything that reads what it found."""

from __future__ import annotations

from pathlib import Path

from tests.support.example import ExampleRun, run_example

FOLDER = "toolchains"
COLUMNS = "model,backend,precision,scheme,metric,drop,agreement,p50,speedup,coverage,size,memory,build,status"


def run_toolchains(project: Path, *arguments: str) -> ExampleRun:
    """Run the folder in a copy of the example, with short timings and the columns of a seed table."""
    return run_example(project, FOLDER, "--quant-max-time=0.5", f"--quant-columns={COLUMNS}", *arguments)
