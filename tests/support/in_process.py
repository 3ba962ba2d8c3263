"""Runs of pytest in the process of the test: for what is not about processes.

pytester forgets the modules that a run imported, after the run and again after the test; but numpy and the runtimes
cannot be imported twice into one process, and take seconds once. So what is no part of a test's own project is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

_KEPT: dict[str, ModuleType] = {}
_FINDERS: list[Any] = []
"""Of metadata: ``importlib_metadata`` disables Python's own in favour of its own, for good."""


class _Looker:
    """A plugin of the run, which looks at what is imported before pytester forgets it."""

    def __init__(self, projects: Path) -> None:
        self._projects = projects

    def pytest_unconfigure(self) -> None:
        """Keep everything but the files of tests' projects."""
        keep(self._projects)


def keep(projects: Path) -> None:
    """Keep what is imported now, but for the files of tests' `projects`.

    An extension module that is forgotten is freed, and what it registered elsewhere points to nothing.
    """
    for name, module in sys.modules.items():
        file = getattr(module, "__file__", None)
        if file is None or not Path(file).is_relative_to(projects):
            _KEPT.setdefault(name, module)
    _FINDERS.extend(
        finder for finder in sys.meta_path if hasattr(finder, "find_distributions") and finder not in _FINDERS
    )


def bring_back() -> None:
    """Put back what was forgotten, so that nothing is imported twice."""
    for name, module in _KEPT.items():
        sys.modules.setdefault(name, module)
    sys.meta_path.extend(finder for finder in _FINDERS if finder not in sys.meta_path)


@contextmanager
def imports_forgotten(folder: Path) -> Iterator[None]:
    """Forget what the block imports from `folder`, as a process that ends does; another test may use the same name."""
    path, modules = list(sys.path), set(sys.modules)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in sys.modules.keys() - modules:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(folder):
                del sys.modules[name]


def run_here(pytester: pytest.Pytester, *args: str, plugins: Sequence[object] = ()) -> pytest.RunResult:
    """Run pytest in this process with `plugins`, outside of workers of xdist, and write no bytecode of the project.

    A file that a test rewrites within one second and at one size would be taken for the compiled one.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
            patch.delenv(name, raising=False)
        patch.setattr(sys, "dont_write_bytecode", True)
        result = pytester.runpytest_inprocess(*args, plugins=[_Looker(pytester.path.parent), *plugins])
    bring_back()
    return result
