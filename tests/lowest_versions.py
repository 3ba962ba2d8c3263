"""The lowest versions that the project declares, installed and tested: ``python -m tests.lowest_versions``.

Each dependency of the core and of the extras below is pinned to the floor that ``pyproject.toml`` declares, in a
virtual environment of its own on the oldest Python that the project takes. There the unit tests of what these packages
serve run, and a check from end to end: through ONNX Runtime, the history, git and the command. What follows ``--`` goes
to pytest.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

EXTRAS = ("history", "ort", "postgres")
"""What is pinned beside the core; the extra postgres because the tests ask for a server's driver wherever they run."""

TOOLS = ("hypothesis", "jsonschema", "scikit-learn", "scipy", "statsmodels")
"""What the tests below compare with, in versions that go with the pinned ones."""

TESTS = (
    "tests/unit/backends/onnx_files",
    "tests/unit/backends/ort",
    "tests/unit/cache",
    "tests/unit/cli",
    "tests/unit/data",
    "tests/unit/environment",
    "tests/unit/history",
    "tests/unit/report",
    "tests/unit/measure",
    "tests/unit/test_session.py",
    "tests/unit/plugin/test_console.py",
    "tests/integration/test_history_limits.py",
)


def floors(extras: tuple[str, ...] = EXTRAS) -> list[str]:
    """Return the dependencies of the core and of `extras`, each pinned to its floor.

    Raises
    ------
    ValueError : one of them declares no lowest version.
    """
    return sorted(
        {_pinned(one) for one in _declared([*PROJECT["dependencies"], f"{PROJECT['name']}[{','.join(extras)}]"])}
    )


def _declared(lines: list[str]) -> Iterator[Requirement]:
    """Yield these requirements, our own extras taken apart."""
    for one in map(Requirement, lines):
        if one.name == PROJECT["name"]:
            for extra in sorted(one.extras):
                yield from _declared(PROJECT["optional-dependencies"][extra])
        else:
            yield one


def _pinned(requirement: Requirement) -> str:
    lowest = [part.version for part in requirement.specifier if part.operator in (">=", "==")]
    if len(lowest) != 1:
        raise ValueError(f"{requirement} declares no lowest version; write {requirement.name}>=")
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}=={lowest[0]}"


def oldest_python() -> str:
    """Return the oldest Python that the project takes. Raises `FileNotFoundError` when it is not installed."""
    named = re.search(r">=\s*(\d+\.\d+)", PROJECT["requires-python"])
    assert named is not None
    if sys.version.startswith(f"{named[1]}."):
        return sys.executable
    found = shutil.which(f"python{named[1]}")
    if found is None:
        raise FileNotFoundError(f"the lowest versions are those of Python {named[1]}, and it is not installed")
    return found


def main() -> int:
    """Make the environment, show what is pinned in it, and run the tests."""
    parser = argparse.ArgumentParser(prog="python -m tests.lowest_versions", description=__doc__)
    parser.add_argument("arguments", nargs="*", help="for pytest, after --; paths take the place of the tests")
    arguments = parser.parse_args().arguments
    named = any(not argument.startswith("-") for argument in arguments)
    pins = floors()
    print("\n".join(pins), flush=True)  # noqa: T201 - what is tested belongs into the log
    with tempfile.TemporaryDirectory(prefix="pytest-quant-lowest-") as folder:
        subprocess.run([oldest_python(), "-m", "venv", folder], check=True)
        python = str(Path(folder, "bin", "python"))
        pip = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check")
        # Wheels only: who installs an old version compiles nothing, and an old sdist does not build today.
        subprocess.run([*pip, "--only-binary=:all:", *pins], check=True)
        # After the pins, and beside them: what is there already leaves pip little to choose from, which is quicker.
        subprocess.run([*pip, "--only-binary=:all:", *pins, *TOOLS], check=True)
        subprocess.run([*pip, "--no-deps", "-e", str(ROOT)], check=True)
        tests = () if named else TESTS
        return subprocess.run(
            [python, "-m", "pytest", "-p", "no:cacheprovider", *tests, *arguments], cwd=ROOT, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
