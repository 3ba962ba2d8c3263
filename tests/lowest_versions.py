"""The lowest versions that the project declares, installed and tested: ``python -m tests.lowest_versions``.

Each dependency of the core and of some extras is pinned to the floor that ``pyproject.toml`` declares, in a virtual
environment of its own on the oldest Python that the project takes. There the unit tests of what these packages serve
run, and a check from end to end: through ONNX Runtime, the history, git and the command. What follows ``--`` goes to
pytest.
"""

from __future__ import annotations

import argparse
import sys

from packaging.requirements import Requirement

from tests.other_pythons import offered, python_of
from tests.support.fresh_environment import requirements, run_tests


def floors() -> list[str]:
    """Return the dependencies of the core and of the extras that are tested, each pinned to its floor.

    Raises
    ------
    ValueError : one of them declares no lowest version.
    """
    return sorted(set(map(_pinned, requirements())))


def _pinned(requirement: Requirement) -> str:
    lowest = [part.version for part in requirement.specifier if part.operator in (">=", "==")]
    if len(lowest) != 1:
        raise ValueError(f"{requirement} declares no lowest version; write {requirement.name}>=")
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}=={lowest[0]}"


def main() -> int:
    """Show what is pinned, and run the tests with it."""
    parser = argparse.ArgumentParser(prog="python -m tests.lowest_versions", description=__doc__)
    parser.add_argument("arguments", nargs="*", help="for pytest, after --; paths take the place of the tests")
    arguments = parser.parse_args().arguments
    oldest = offered()[0]
    python = python_of(oldest)
    if python is None:
        parser.error(f"the lowest versions are those of Python {oldest}, and it is not installed")
    pins = floors()
    print("\n".join(pins), flush=True)  # noqa: T201 - what is tested belongs into the log
    return run_tests(python, pins, arguments)


if __name__ == "__main__":
    sys.exit(main())
