"""How CI installs a project: by uv or poetry where there is their lock file, else by pip."""

from __future__ import annotations

import shlex
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from pytest_quant.errors import UsageError

_US = "pytest-quant"
_OLDEST, _NEWEST = 11, 14
"""Minor versions of Python 3 that a workflow may be written for."""

_ENVIRONMENT = ".venv/bin"
"""Where uv, and poetry when it is told so, put the programs of the project's environment."""

_IN_PROJECT = "POETRY_VIRTUALENVS_IN_PROJECT=true"

Table = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Installing:
    """Commands of bash that install a project, its tests' dependencies, and this package.

    Attributes
    ----------
    manager : ``uv``, ``poetry`` or ``pip``; empty for commands of the user.
    lines : one command each.
    programs : folder of the environment's programs, relative to the project; empty where the caller's python is used.
    cached : there is a file from which setup-python's cache of pip takes its key.
    """

    manager: str
    lines: tuple[str, ...]
    programs: str = ""
    cached: bool = False


def find_installing(root: Path, extras: Sequence[str], *, beside: bool = False) -> Installing:
    """Return how the project at `root` is installed.

    Parameters
    ----------
    root : top folder of the project.
    extras : of this package, for where the project does not name the package itself.
    beside : install them where it does too, because they are others than those that it names.

    Raises
    ------
    UsageError : pyproject.toml is no TOML.
    """
    project = _pyproject(root)
    wanted = _wanted(extras)
    groups = tuple(_groups_with_us(project))
    extra = next((name for kind, name in groups if kind == "extra"), "")
    cached = any((root / name).is_file() for name in ("requirements.txt", "pyproject.toml"))
    if (root / "uv.lock").is_file():
        sync = f"uv sync --locked --all-groups --extra {extra}" if extra else "uv sync --locked --all-groups"
        more = _more("uv pip", wanted, named=bool(groups), beside=beside)
        return Installing("uv", ("python -m pip install uv", sync, *more), _ENVIRONMENT, cached)
    if (root / "poetry.lock").is_file():
        install = f"poetry install --no-interaction --extras {extra}" if extra else "poetry install --no-interaction"
        more = _more("python -m pip --python .venv/bin/python", wanted, named=bool(groups), beside=beside)
        return Installing(
            "poetry", ("python -m pip install poetry", f"{_IN_PROJECT} {install}", *more), _ENVIRONMENT, cached
        )
    return Installing("pip", tuple(_by_pip(root, project, groups, wanted, beside=beside)), cached=cached)


def _more(pip: str, wanted: str, *, named: bool, beside: bool) -> tuple[str, ...]:
    """Return what installs this package beside a project; where it names the package, only other extras are missing."""
    if not named:
        return (f"{pip} install {wanted}",)
    return _in_place_of_others(pip, wanted) if beside else ()


def _in_place_of_others(pip: str, wanted: str) -> tuple[str, ...]:
    # What the project names may bring ONNX Runtime's wheel for CPUs, which has the files of that for GPUs.
    yes = "" if pip.startswith("uv") else "-y "
    return f"{pip} uninstall {yes}onnxruntime onnxruntime-gpu", f"{pip} install {wanted}"


def as_asked(commands: str, extras: Sequence[str], *, beside: bool) -> Installing:
    """Return the user's own commands, a line each; `extras` and `beside` as for `find_installing`."""
    more = _in_place_of_others("python -m pip", _wanted(extras)) if beside else ()
    return Installing("", (*commands.splitlines(), *more))


def _wanted(extras: Sequence[str]) -> str:
    return f'"{_US}[{",".join(extras)}]"' if extras else _US


def _by_pip(
    root: Path, project: Table, groups: Sequence[tuple[str, str]], wanted: str, *, beside: bool
) -> Iterator[str]:
    files = _requirement_files(root)
    naming = [file for file in files if _names_us(_requirements(root / file))]
    chosen = naming[:1] or [file for file in files if file == "requirements.txt"]
    extra = next((name for kind, name in groups if kind == "extra"), "")
    group = next((name for kind, name in groups if kind == "group"), "")
    words = [f"-r {shlex.quote(file)}" for file in chosen]
    if "project" in project or "poetry" in project.get("tool", {}) or (root / "setup.py").is_file():
        words.append(f'-e ".[{extra}]"' if extra else "-e .")
    if group and not extra:
        # pip reads groups since version 25.1.
        yield "python -m pip install --upgrade pip"
        words += ["--group", group]
    named = bool(naming or groups)
    if not named:
        words.append(wanted)
    yield f"python -m pip install {' '.join(words)}"
    if named:
        yield from _more("python -m pip", wanted, named=True, beside=beside)


def _pyproject(root: Path) -> Table:
    file = root / "pyproject.toml"
    if not file.is_file():
        return {}
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            "pyproject.toml cannot be read", value=str(error), fix="mend the file, and run it again"
        ) from None


def _groups_with_us(project: Table) -> Iterator[tuple[str, str]]:
    """Yield where pyproject.toml asks for this package: ``("extra", name)``, ``("group", name)``, ``("core", "")``."""
    own, poetry = project.get("project", {}), project.get("tool", {}).get("poetry", {})
    if _names_us(own.get("dependencies", ())) or _names_us(poetry.get("dependencies", {})):
        yield "core", ""
    for name, lines in own.get("optional-dependencies", {}).items():
        if _names_us(lines):
            yield "extra", name
    for name, lines in project.get("dependency-groups", {}).items():
        if _names_us(line for line in lines if isinstance(line, str)):
            yield "group", name
    for name, group in poetry.get("group", {}).items():
        if _names_us(group.get("dependencies", {})):
            yield "poetry", name


def _names_us(lines: Iterable[str]) -> bool:
    return _US in {_name_in(line) for line in lines}


def _name_in(line: str) -> str:
    try:
        return canonicalize_name(Requirement(line).name)
    except InvalidRequirement:
        return ""


def _requirement_files(root: Path) -> list[str]:
    found = {*root.glob("*requirements*.txt"), *root.glob("requirements/*.txt")}
    return sorted(file.relative_to(root).as_posix() for file in found if file.is_file())


def _requirements(file: Path) -> list[str]:
    lines = (line.partition(" #")[0].strip() for line in file.read_text("utf-8", "replace").splitlines())
    return [line for line in lines if line and not line.startswith(("#", "-"))]


def find_python(root: Path) -> str:
    """Return the version of Python for CI, ``3.12``.

    It is that of the file ``.python-version``, else this one where the project allows it, else the oldest that it does.
    """
    pinned = root / ".python-version"
    words = pinned.read_text("utf-8", "replace").split() if pinned.is_file() else []
    numbers = words[0].split(".") if words else []
    if len(numbers) >= 2 and numbers[0] == "3" and numbers[1].isdecimal():
        return f"3.{numbers[1]}"
    here = sys.version_info.minor
    try:
        allowed = SpecifierSet(str(_pyproject(root).get("project", {}).get("requires-python", "")))
    except InvalidSpecifier:
        allowed = SpecifierSet()
    fitting = (minor for minor in (here, *range(_OLDEST, _NEWEST + 1)) if allowed.contains(f"3.{minor}.99"))
    return f"3.{next(fitting, here)}"
