"""Every other Python that the project declares, and the lowest versions of its dependencies: tested apart.

``python -m tests.nightly.other_versions`` installs the core and some extras for each other Python that this machine
has, in a virtual environment of its own, and runs the tests of what they serve there. With ``--lowest`` that is the
oldest Python alone, and each dependency is pinned to the floor that ``pyproject.toml`` declares. What follows ``--``
goes to pytest. The exit status is 1 when tests fail.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
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

TOOLS = ("hypothesis", "jsonschema", "scikit-learn", "scipy", "statsmodels")
"""What the tests below compare with, in versions that go with those of the environment."""

TESTS = (
    *("backends/onnx_files", "backends/ort", "cache", "cli", "data", "environment", "history", "measure", "report"),
    *("record/test_run.py", "record/test_record.py", "plugin/test_settings.py", "test_session.py"),
)
"""Unit tests, beside which one check from end to end is run."""


def offered() -> list[str]:
    """Return the Pythons that the project's metadata names, such as ``3.11``, the oldest first."""
    named = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in PROJECT["classifiers"])
    return sorted((result[1] for result in named if result), key=lambda text: int(text.partition(".")[2]))


def python_of(version: str) -> str | None:
    """Return an interpreter of a `version` such as ``3.11``; ``None`` where there is none that starts."""
    if sys.version.startswith(f"{version}."):
        return sys.executable
    result = shutil.which(f"python{version}")
    # A version manager puts a program of that name on the path for versions that it does not run.
    if result is None or subprocess.run([result, "--version"], capture_output=True, check=False).returncode != 0:
        return None
    return result


def requirements(lines: Sequence[str]) -> Iterator[Requirement]:
    """Yield what `lines` ask for, our own extras taken apart."""
    for each in map(Requirement, lines):
        if each.name == PROJECT["name"]:
            for extra in sorted(each.extras):
                yield from requirements(PROJECT["optional-dependencies"][extra])
        else:
            yield each


def pinned(requirement: Requirement) -> str:
    """Return a requirement at its floor. Raises `ValueError` where it declares none."""
    lowest = [part.version for part in requirement.specifier if part.operator in (">=", "==")]
    if len(lowest) != 1:
        raise ValueError(f"{requirement} declares no lowest version; write {requirement.name}>=")
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}=={lowest[0]}"


def run_tests(python: str, packages: Sequence[str], arguments: Sequence[str]) -> int:
    """Install the project for `python` with these `packages`, test it there, and return pytest's exit status."""
    tests = [f"tests/unit/{name}" for name in TESTS] + ["tests/integration/test_history_limits.py"]
    if any(not argument.startswith("-") for argument in arguments):
        tests = []
    with tempfile.TemporaryDirectory(prefix="pytest-quant-environment-") as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        inside = str(Path(folder, "bin", "python"))
        pip = (inside, "-m", "pip", "install", "-q", "--disable-pip-version-check")
        # Wheels only: who installs an old version compiles nothing, and an old sdist does not build today.
        subprocess.run([*pip, "--only-binary=:all:", *packages], check=True)
        # After the requirements, and beside them: what is there already leaves pip little to choose from.
        subprocess.run([*pip, "--only-binary=:all:", *packages, *TOOLS], check=True)
        subprocess.run([*pip, "--no-deps", "-e", str(ROOT)], check=True)
        command = [inside, "-m", "pytest", "-p", "no:cacheprovider", *tests, *arguments]
        return subprocess.run(command, cwd=ROOT, check=False).returncode


def main() -> int:
    """Test each of them, and say which were not here."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.other_versions", description=__doc__)
    parser.add_argument("--lowest", action="store_true", help="test the lowest versions, on the oldest Python")
    parser.add_argument("arguments", nargs="*", help="for pytest, after --; paths take the place of the tests")
    chosen = parser.parse_args()
    needed = requirements([*PROJECT["dependencies"], f"{PROJECT['name']}[{','.join(EXTRAS)}]"])
    packages = sorted({pinned(each) if chosen.lowest else str(each) for each in needed})
    others = [version for version in offered() if not sys.version.startswith(f"{version}.")]
    ended: dict[str, str] = {}
    for version in offered()[:1] if chosen.lowest else others:
        python = python_of(version)
        status = None if python is None else run_tests(python, packages, chosen.arguments)
        ended[version] = "not installed" if status is None else "failed" if status else "passed"
    for version, outcome in ended.items():
        print(f"Python {version} with {', '.join(packages)}: {outcome}", flush=True)  # noqa: T201 - what a command prints
    return int("failed" in ended.values())


if __name__ == "__main__":
    sys.exit(main())
