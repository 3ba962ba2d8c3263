"""The core and the extras that every Python has, tested in a virtual environment of its own."""

from __future__ import annotations

import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

EXTRAS = ("history", "ort", "postgres")
"""What is tested beside the core; the extra postgres because the tests ask for a server's driver wherever they run."""

TOOLS = (
    *("hypothesis", "jsonschema"),
    *("scikit-learn", "scipy", "statsmodels"),
)
"""What the tests below compare with, in versions that go with those of the environment."""

TESTS = (
    "tests/unit/backends/onnx_files",
    "tests/unit/backends/ort",
    "tests/unit/cache",
    "tests/unit/cli",
    "tests/unit/data",
    "tests/unit/environment",
    "tests/unit/history",
    "tests/unit/record/test_run.py",
    "tests/unit/record/test_codec.py",
    "tests/unit/report",
    "tests/unit/measure",
    "tests/unit/test_session.py",
    "tests/unit/plugin/test_settings.py",
    "tests/integration/test_history_limits.py",
)


def requirements() -> Iterator[Requirement]:
    """Yield what the core and `EXTRAS` ask for, our own extras taken apart."""
    yield from _taken_apart([*PROJECT["dependencies"], f"{PROJECT['name']}[{','.join(EXTRAS)}]"])


def _taken_apart(lines: Sequence[str]) -> Iterator[Requirement]:
    for one in map(Requirement, lines):
        if one.name == PROJECT["name"]:
            for extra in sorted(one.extras):
                yield from _taken_apart(PROJECT["optional-dependencies"][extra])
        else:
            yield one


def run_tests(python: str, requirements: Sequence[str], arguments: Sequence[str]) -> int:
    """Install the project for `python`, test it there, and return the exit status of pytest.

    Parameters
    ----------
    python : the interpreter to make the environment with.
    requirements : dependencies as pip takes them; the project itself is installed without any.
    arguments : for pytest; paths among them take the place of `TESTS`.

    Raises
    ------
    subprocess.CalledProcessError : the environment could not be made.
    """
    named = any(not argument.startswith("-") for argument in arguments)
    with tempfile.TemporaryDirectory(prefix="pytest-quant-environment-") as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        inside = str(Path(folder, "bin", "python"))
        pip = (inside, "-m", "pip", "install", "-q", "--disable-pip-version-check")
        # Wheels only: who installs an old version compiles nothing, and an old sdist does not build today.
        subprocess.run([*pip, "--only-binary=:all:", *requirements], check=True)
        # After the requirements, and beside them: what is there already leaves pip little to choose from.
        subprocess.run([*pip, "--only-binary=:all:", *requirements, *TOOLS], check=True)
        subprocess.run([*pip, "--no-deps", "-e", str(ROOT)], check=True)
        tests = () if named else TESTS
        command = [inside, "-m", "pytest", "-p", "no:cacheprovider", *tests, *arguments]
        return subprocess.run(command, cwd=ROOT, check=False).returncode
