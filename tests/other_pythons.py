"""Every other Python that the project declares and this machine has, tested: ``python -m tests.other_pythons``.

For each of them the core and some extras are installed in a virtual environment of its own, and the tests of what they
serve run there. What follows ``--`` goes to pytest. The exit status is 1 when the tests of one Python fail.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys

from tests.support.fresh_environment import PROJECT, requirements, run_tests


def offered() -> list[str]:
    """Return the Pythons that the project's metadata names, such as ``3.11``, the oldest first."""
    named = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in PROJECT["classifiers"])
    return sorted((found[1] for found in named if found), key=lambda text: int(text.partition(".")[2]))


def python_of(version: str) -> str | None:
    """Return an interpreter of a `version` such as ``3.11``; ``None`` where there is none that starts."""
    if sys.version.startswith(f"{version}."):
        return sys.executable
    found = shutil.which(f"python{version}")
    # A version manager puts a program of that name on the path for versions that it does not run.
    if found is None or subprocess.run([found, "--version"], capture_output=True, check=False).returncode != 0:
        return None
    return found


def main() -> int:
    """Test each of them, and say which were not here."""
    parser = argparse.ArgumentParser(prog="python -m tests.other_pythons", description=__doc__)
    parser.add_argument("arguments", nargs="*", help="for pytest, after --; paths take the place of the tests")
    arguments = parser.parse_args().arguments
    needed = sorted(set(map(str, requirements())))
    ended: dict[str, str] = {}
    for version in offered():
        if sys.version.startswith(f"{version}."):
            continue
        python = python_of(version)
        status = None if python is None else run_tests(python, needed, arguments)
        ended[version] = "not installed" if status is None else "failed" if status else "passed"
    for version, outcome in ended.items():
        print(f"Python {version}: {outcome}", flush=True)  # noqa: T201 - what a command prints
    return int("failed" in ended.values())


if __name__ == "__main__":
    sys.exit(main())
