"""The example's folder ``toolchains``: one run of it, shared by everything that reads what it found."""

from __future__ import annotations

from pathlib import Path

from tests.support.example import ExampleRun, run_example

FOLDER = "toolchains"
COLUMNS = "model,backend,precision,scheme,metric,drop,agreement,p50,speedup,coverage,size,memory,build,status"


def run_toolchains(project: Path, *arguments: str) -> ExampleRun:
    """Run the folder in a copy of the example, with short timings, no advice, and the columns of a seed table."""
    options = ("--quant-max-time=0.5", "--quant-diagnose-time=0", f"--quant-columns={COLUMNS}")
    return run_example(project, FOLDER, *options, *arguments)
