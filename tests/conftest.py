"""One run of the example project, shared by everything that reads what it found."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from dataclasses import asdict
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

from pytest_quant.measure.lock import FOLDER_VARIABLE
from tests.support.compiled import compile_once
from tests.support.example import ExampleRun, copy_example, run_example
from tests.support.in_process import bring_back, keep
from tests.tiers import LONGEST, ROOT, TIERS, is_in

pytest_plugins = [
    "pytester",
    *(f"tests.support.{name}" for name in ("browser", "custom_operators", "nvml_stub", "postgres", "pgbouncer")),
]

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")  # a test tells of the code, not of who else uses the processor


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the tiers; without the option everything that is named is run."""
    parser.addoption("--tier", choices=list(TIERS), help="run one tier of the tests: " + ", ".join(TIERS))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of other tiers; say nothing about the rest."""
    tier: str | None = config.getoption("--tier")
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if tier and is_test and not is_in(tier, collection_path) else None


def pytest_configure(config: pytest.Config) -> None:
    """Compile the package; the locks are of this process, and what PyTorch compiles is of this run.

    A run neither waits for other runs on this machine, nor finds what they left. The workers do not wait for each
    other either: what is tested here is what the plugin does, and its timings are judged by `tests/benchmarks` alone.
    """
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        # Runs within tests would write to the summary of the job that runs the tests, and annotations to its log.
        os.environ.pop(name, None)
    os.environ[FOLDER_VARIABLE] = _folder_of(config, "locks")
    if hasattr(config, "workerinput"):
        return
    compile_once()
    if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = _folder_of(config, "inductor")


def _folder_of(config: pytest.Config, name: str) -> str:
    folder = tempfile.TemporaryDirectory(prefix=f"pytest-quant-{name}-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    return folder.name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker is left alone with one of them at the end."""
    places = {file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.relative_to(ROOT).as_posix(), len(places)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Bring back what `pytester` makes this process forget at the end of its test."""
    project = item.funcargs.get("pytester") if isinstance(item, pytest.Function) else None
    if isinstance(project, pytest.Pytester):
        keep(project.path.parent)
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
    """A copy of the example project, in which `first_run` has run; all workers have the same one."""
    return _shared(tmp_path_factory)[0]


@pytest.fixture(scope="session")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> ExampleRun:
    """The first run of the example, with nothing built before."""
    return _shared(tmp_path_factory)[1]


def _shared(factory: pytest.TempPathFactory) -> tuple[Path, ExampleRun]:
    """Return a copy of the example and what its run gave: made by the worker that asks first, for all of them."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-example"
    folder.mkdir(exist_ok=True)
    file = folder / "run.json"
    with FileLock(folder / "lock"):
        if not file.exists():
            shutil.rmtree(folder / "example", ignore_errors=True)
            # Without advice, which takes half a minute and is tested by itself.
            run = run_example(copy_example(folder), "--quant-diagnose-time=0")
            file.write_text(json.dumps(asdict(run)), "utf-8")
    return folder / "example", ExampleRun(**json.loads(file.read_text("utf-8")))
