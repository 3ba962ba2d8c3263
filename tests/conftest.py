"""One run of the example project, shared by everything that reads what it found."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.compiled import compile_once
from tests.example import ExampleRun, copy_example, run_example
from tests.in_process import bring_back
from tests.toolchains import run_toolchains

pytest_plugins = ["pytester", "tests.postgres"]


def pytest_configure(config: pytest.Config) -> None:
    """Compile the package; and let what PyTorch compiles be of this run: what others left is not tested."""
    if hasattr(config, "workerinput"):
        return
    compile_once()
    if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="pytest-quant-inductor-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder.name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    """Bring back what `pytester` makes this process forget at the end of its test."""
    yield
    bring_back()


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print a line through to the terminal and the CI log."""

    def write(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}")  # noqa: T201 - the figure is what a benchmark is for

    return write


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example project, in which `first_run` has run."""
    return copy_example(tmp_path_factory.mktemp("example"))


@pytest.fixture(scope="session")
def first_run(example: Path) -> ExampleRun:
    """The first run of the example, with nothing built before."""
    return run_example(example)


@pytest.fixture(scope="session")
def second_run(example: Path, first_run: ExampleRun) -> ExampleRun:
    """The second run of the example, right after the first."""
    return run_example(example)


@pytest.fixture(scope="session")
def toolchains_run(example: Path) -> ExampleRun:
    """One run of the example's folder ``toolchains``, with nothing built before."""
    return run_toolchains(example)
