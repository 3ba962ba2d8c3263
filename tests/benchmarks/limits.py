"""How a benchmark is judged: by its interval where it has one, and red only when a fresh process says the same."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

from pytest_quant.stats.ratio import Estimate

AGAIN = "PYTEST_QUANT_BENCHMARK_AGAIN"
"""Environment variable of the fresh process, which judges by itself."""


class BeyondLimitError(AssertionError):
    """A figure is beyond its limit, as far as one process can tell."""


class OpenLimitWarning(UserWarning):
    """A figure whose interval covers its limit, or that was beyond it in one process of two."""


def at_most(found: float | Estimate, limit: float, what: str) -> None:
    """Raise when `found` is above `limit`, with all of its interval; warn when that covers the limit."""
    low, high = (found.low, found.high) if isinstance(found, Estimate) else (found, found)
    _judge(low > limit, high > limit, f"{what}: {_shown(found)}, at most {limit:g} is allowed")


def at_least(found: float | Estimate, limit: float, what: str) -> None:
    """Raise when `found` is below `limit`, with all of its interval; warn when that covers the limit."""
    low, high = (found.low, found.high) if isinstance(found, Estimate) else (found, found)
    _judge(high < limit, low < limit, f"{what}: {_shown(found)}, at least {limit:g} is asked for")


def judge_again(root: Path, nodeid: str, first: BeyondLimitError) -> None:
    """Run the benchmark in a fresh process, and raise only when it fails there too; in that process raise at once."""
    if os.environ.get(AGAIN):
        raise first
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", nodeid]
    second = subprocess.run(
        command, cwd=root, env=os.environ | {AGAIN: "1"}, capture_output=True, text=True, check=False
    )
    if second.returncode != 0:
        raise BeyondLimitError(f"{first}; a fresh process says:\n{second.stdout}{second.stderr}") from first
    warnings.warn(f"{first}; not so in a fresh process", OpenLimitWarning, stacklevel=2)


def _judge(beyond: bool, covered: bool, message: str) -> None:
    if beyond:
        raise BeyondLimitError(message)
    if covered:
        warnings.warn(f"inconclusive: {message}", OpenLimitWarning, stacklevel=3)


def _shown(found: float | Estimate) -> str:
    return f"{found.value:.4g} [{found.low:.4g}, {found.high:.4g}]" if isinstance(found, Estimate) else f"{found:.4g}"
