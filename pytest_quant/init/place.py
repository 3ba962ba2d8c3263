"""Where the tests of a project lie, and what pytest knows of it."""

from __future__ import annotations

import configparser
import posixpath
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CONFIGURATIONS = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "setup.py")
"""Each marks the root directory of pytest, whatever is in it."""

_SECTIONS = {"tox.ini": "pytest", "setup.cfg": "tool:pytest"}
"""Files that do so where they have this section."""

_USUAL = ("tests", "test")
_PLAIN = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]*")
"""Folders that are one word in a shell, with or without quotes: workflows name them in both ways."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a project's quant tests.

    Attributes
    ----------
    folder : of the tests, relative to the root with slashes; ``.`` for the root itself.
    configured : a file marks the root directory of pytest, so that node ids and ``.quant`` do not depend on where, and
        with which path, pytest is started.
    sources : the folder that modules are imported from, ``.`` or ``src``.
    searched : its configuration has pytest import from `sources`.
    """

    folder: str
    configured: bool
    sources: str
    searched: bool = False


def find_place(root: Path) -> Place:
    """Return the place below the first of ``testpaths``, else of a usual folder; the root where tests lie there."""
    named = [folder for folder in _setting(root, "testpaths") if _PLAIN.fullmatch(folder) and (root / folder).is_dir()]
    usual = [name for name in _USUAL if (root / name).is_dir()]
    at_root = any(root.glob("test_*.py"))
    base = next(iter((*named, *usual)), "." if at_root else _USUAL[0])
    folder = base if base == "." else f"{base.rstrip('/')}/quant"
    configured = any((root / name).is_file() for name in _CONFIGURATIONS) or any(_with_section(root))
    sources = "src" if (root / "src").is_dir() and not (root / "src" / "__init__.py").exists() else "."
    return Place(folder, configured, sources, sources in map(posixpath.normpath, _setting(root, "pythonpath")))


def _setting(root: Path, name: str) -> Iterator[str]:
    """Yield the folders that a setting of pytest has."""
    file = root / "pyproject.toml"
    if file.is_file():
        try:
            table = tomllib.loads(file.read_text("utf-8", "replace"))
        except tomllib.TOMLDecodeError:
            return
        asked = table.get("tool", {}).get("pytest", {}).get("ini_options", {}).get(name, [])
        yield from asked.split() if isinstance(asked, str) else asked
    for configuration, section in {"pytest.ini": "pytest", ".pytest.ini": "pytest", **_SECTIONS}.items():
        yield from _ini(root / configuration, section).get(name, "").split()


def _with_section(root: Path) -> Iterator[str]:
    for name, section in _SECTIONS.items():
        if (root / name).is_file() and _parsed(root / name).has_section(section):
            yield name


def _ini(file: Path, section: str) -> dict[str, str]:
    parsed = _parsed(file)
    return dict(parsed[section]) if parsed.has_section(section) else {}


def _parsed(file: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    if file.is_file():
        try:
            parser.read_string(file.read_text("utf-8", "replace"))
        except configparser.Error:
            return configparser.ConfigParser()
    return parser
