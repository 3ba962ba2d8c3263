"""The tiers of the tests, by folder, so that a new file is in the right ones without being named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent
WHOLE_RUN = PurePosixPath("integration/test_history_limits.py")
"""The one run from a mark to the history that is in the fast tier, beside those of README.md."""

LONGEST = (
    # Not for its length: a worker that had run all of the integration tests was ended by its signals, for a reason that
    # is not known yet; a new worker never was.
    "unit/backends/test_callable.py",
    "integration/test_linters.py",
    "integration/test_example_project.py",
    "integration/test_against.py",
    "conformance/test_torch.py",
    "integration/torch_traps/test_torch.py",
    "integration/test_history_story.py",
    "test_readme.py",
)
"""The files with which a run begins, the longest first."""


def _is_benchmark(file: PurePosixPath) -> bool:
    return file.parts[0] == "benchmarks"


def _is_nightly(file: PurePosixPath) -> bool:
    return file.parts[0] == "nightly"


def _is_fast(file: PurePosixPath) -> bool:
    return file.parts[0] == "unit" or len(file.parts) == 1 or file == WHOLE_RUN


TIERS: dict[str, Callable[[PurePosixPath], bool]] = {
    "fast": _is_fast,
    "all": lambda file: not _is_benchmark(file) and not _is_nightly(file),
    "nightly": _is_nightly,
    "benchmarks": _is_benchmark,
}
"""Which test files are in a tier, by their place in ``tests``."""


def is_in(tier: str, file: Path) -> bool:
    """Whether the test file is in the tier."""
    return TIERS[tier](PurePosixPath(file.relative_to(ROOT).as_posix()))
