"""The repository that files are written for: the forge of its CI, its branch, its tests, and how CI installs it."""

from __future__ import annotations

import configparser
import json
import posixpath
import re
import sys
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any, Literal

from pytest_quant.environment.revision import ask_git, main_branch
from pytest_quant.environment.worktree import top_level
from pytest_quant.errors import UsageError
from pytest_quant.files import read_file

Forge = Literal["github", "gitlab"]
FORGES: tuple[Forge, ...] = ("github", "gitlab")

RUNNERS = ("ubuntu-latest", "ubuntu-24.04-arm", "macos-latest", "windows-latest")
"""GitHub's own images that are free for public repositories."""

GITLAB_FILE = ".gitlab-ci.yml"
"""The pipeline that GitLab runs."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/]*@)?(?P<host>[^/:@]+)")
_SCP = re.compile(r"(?:[^/@:]+@)?(?P<host>[^/:@]+):(?!//)")
_PLAIN_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+@#-]*")
"""Names of branches that need no quotes in YAML, in a shell, and in an expression of a forge."""

_FORGE_FILES: dict[Forge, tuple[str, ...]] = {"github": (".github",), "gitlab": (GITLAB_FILE, ".gitlab")}
"""Files and folders that only one of them reads."""

_ROOT_FILES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "setup.py")
"""Each marks the root directory of pytest, whatever is in it."""

_SECTIONS = {"pytest.ini": "pytest", ".pytest.ini": "pytest", "tox.ini": "pytest", "setup.cfg": "tool:pytest"}
_TEST_FOLDERS = ("tests", "test")
_SPLITTER = '"pytest-split>=0.11"'
"""What gives each job of CI its part of the tests."""

_GIT_ADDRESS = re.compile(r"(https|ssh)://[\w.:/@~%+-]+")
"""Addresses that CI can reach, and that are one word within the quotes of a shell."""

_PLAIN_FOLDER = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]*")
"""Folders that are one word in a shell, with or without quotes: workflows name them in both ways."""


@dataclass(frozen=True, slots=True)
class Project:
    """A working tree of git, with the place of its quant tests.

    Attributes
    ----------
    root : its top folder.
    remote : address of the remote ``origin``, else of the only one; empty without one.
    branch : the one that work is merged into.
    folder : of the quant tests, relative to the root with slashes; ``.`` for the root itself.
    configured : a file marks the root directory of pytest, so that node ids and ``.quant`` do not depend on where, and
        with which path, pytest is started.
    sources : the folder that modules are imported from, ``.`` or ``src``.
    searched : pytest's configuration makes it import from `sources`.
    required : it refuses to run without this plugin.
    """

    root: Path
    remote: str
    branch: str
    folder: str
    configured: bool
    sources: str
    searched: bool = False
    required: bool = False


def find_project(here: Path) -> Project:
    """Return the project around `here`.

    Raises
    ------
    UsageError : it is no repository, git is not installed, the name of its target branch cannot stand in a workflow, or
        pyproject.toml is no TOML.
    """
    root = top_level(here)
    remotes = ask_git(root, "remote").text.splitlines()
    remote = "origin" if "origin" in remotes else remotes[0] if len(remotes) == 1 else ""
    address = ask_git(root, "remote", "get-url", remote).text.partition("\n")[0] if remote else ""
    branch = main_branch(root, remote or "origin")
    if not _PLAIN_BRANCH.fullmatch(branch):
        raise UsageError(
            "the name of the target branch cannot stand in a workflow",
            value=branch,
            allowed="letters, digits and ._/+@#-",
            fix="rename the branch: git branch -m",
        )
    settings, configured = _pytest_settings(root)
    sources = "src" if (root / "src").is_dir() and not (root / "src" / "__init__.py").exists() else "."
    searched = sources in map(posixpath.normpath, settings.get("pythonpath", ()))
    required = any(word.startswith("pytest-quant") for word in settings.get("required_plugins", ()))
    return Project(root, address, branch, _test_folder(root, settings), configured, sources, searched, required)


def _test_folder(root: Path, settings: dict[str, list[str]]) -> str:
    """Return a folder below the first of ``testpaths``, else below a usual folder; the root if tests lie there."""
    named = [folder for folder in settings.get("testpaths", ()) if _PLAIN_FOLDER.fullmatch(folder)]
    present = [folder.rstrip("/") for folder in (*named, *_TEST_FOLDERS) if (root / folder).is_dir()]
    return "." if not present and any(root.glob("test_*.py")) else f"{(*present, _TEST_FOLDERS[0])[0]}/quant"


def _pytest_settings(root: Path) -> tuple[dict[str, list[str]], bool]:
    """Return the settings of pytest that are lists of words, and whether a file marks its root directory."""
    settings: dict[str, Any] = {}
    with suppress(KeyError, TypeError, ValueError):
        settings |= _pyproject(root)["tool"]["pytest"]["ini_options"]
    is_marked = any((root / name).is_file() for name in _ROOT_FILES)
    for name, section in _SECTIONS.items():
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        with suppress(configparser.Error, UnicodeDecodeError):
            parser.read_string(content(root / name).decode())
        if parser.has_section(section):
            is_marked = True
            settings |= parser[section]
    words = {name: value.split() if isinstance(value, str) else value for name, value in settings.items()}
    return {name: [*map(str, value)] for name, value in words.items() if isinstance(value, list)}, is_marked


def content(file: Path) -> bytes:
    """Return what is in a file; nothing of one that cannot be read, as a pipe, which is never waited for."""
    try:
        return read_file(file, 16_000_000)
    except OSError:
        return b""


def _pyproject(root: Path) -> dict[str, Any]:
    file = root / "pyproject.toml"
    if not file.is_file():
        return {}
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(
            "pyproject.toml cannot be read", value=str(error), fix="mend the file, and run it again"
        ) from None


def find_forge(project: Project) -> Forge | None:
    """Return the forge whose name is in the remote's host, else the one whose files are here; ``None`` without one."""
    address = _URL.match(project.remote) or _SCP.match(project.remote)
    host = address["host"].lower() if address else ""
    by_name = [forge for forge in FORGES if forge in host]
    by_files = [forge for forge in FORGES if any((project.root / file).exists() for file in _FORGE_FILES[forge])]
    return next((forges[0] for forges in (by_name, by_files) if len(forges) == 1), None)


def is_kept_by_git(root: Path, path: str) -> bool:
    """Whether git has the file `path`, relative to `root`, in its index, so that a clone has it too once committed."""
    return ask_git(root, "ls-files", "--error-unmatch", "--", path).ok


@dataclass(frozen=True, slots=True)
class Installation:
    """Commands of bash by which CI installs a project, its tests' dependencies, this package and pytest-split.

    Attributes
    ----------
    lines : one command each.
    programs : folder of the environment's programs, relative to the project; empty where the caller's python is used.
    pip_cached : there is a file from which setup-python's cache of pip takes its key.
    """

    lines: tuple[str, ...]
    programs: str = ""
    pip_cached: bool = False


def find_installation(root: Path, extras: Sequence[str], commands: str = "", *, gpu: bool = False) -> Installation:
    """Return how CI installs the project at `root`: by uv or poetry if their lock file is there, else by pip.

    Parameters
    ----------
    root : top folder of the project.
    extras : of this package.
    commands : of the user, a line each, which are taken as they are.
    gpu : the job runs on a GPU, for which the wheel of ONNX Runtime is another.
    """
    package = f'"{requirement(*extras)}"'
    # The other jobs are groups of their tests.
    package += "" if gpu else f" {_SPLITTER}"
    if commands:
        own = _package("python -m pip", package if gpu else _SPLITTER, gpu=gpu)
        return Installation((*commands.splitlines(), *own))
    if (root / "uv.lock").is_file():
        sync = ("python -m pip install uv", "uv sync --locked --all-groups")
        return Installation((*sync, *_package("uv pip", package, gpu=gpu)), ".venv/bin")
    if (root / "poetry.lock").is_file():
        install = "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction"
        package_lines = _package("python -m pip --python .venv", package, gpu=gpu)
        return Installation(("python -m pip install poetry", install, *package_lines), ".venv/bin")
    words = ["-r requirements.txt"] if (root / "requirements.txt").is_file() else []
    if not {"project", "build-system"}.isdisjoint(_pyproject(root)) or (root / "setup.py").is_file():
        words.append("-e .")
    cached = any((root / name).is_file() for name in ("requirements.txt", "pyproject.toml"))
    if gpu and words:
        project_line = f"python -m pip install {' '.join(words)}"
        return Installation((project_line, *_package("python -m pip", package, gpu=True)), pip_cached=cached)
    return Installation((f"python -m pip install {' '.join([*words, package])}",), pip_cached=cached)


def requirement(*extras: str) -> str:
    """Return this package at the version that runs, by the address of git that it came from, else by an index.

    All jobs install the same, because their records meet in one history.
    """
    chosen = f"[{','.join(extras)}]" if extras else ""
    address = _git_address(_origin())
    return f"pytest-quant{chosen} @ {address}" if address else f"pytest-quant{chosen}{index_pin()}"


def index_pin() -> str:
    """Return how a requirement names the version that runs, if an index has it."""
    return f"=={version('pytest-quant')}"


def is_installable() -> bool:
    """Whether CI can install what runs here: it came from an index or from git, and not from a folder or a file."""
    origin = _origin()
    return not origin or _git_address(origin) != ""


def _origin() -> dict[str, Any]:
    """Return where the installer took this package from, by ``direct_url.json`` of PEP 610; empty for an index."""
    text = distribution("pytest-quant").read_text("direct_url.json")
    return json.loads(text) if text else {}


def _git_address(origin: dict[str, Any]) -> str:
    from_git = origin.get("vcs_info", {}).get("vcs") == "git" and _GIT_ADDRESS.fullmatch(origin["url"])
    return f"git+{origin['url']}@{origin['vcs_info']['commit_id']}" if from_git else ""


def _package(pip: str, package: str, *, gpu: bool) -> tuple[str, ...]:
    """Return what installs this package beside a project."""
    # The project may have brought ONNX Runtime's wheel for CPUs, which has the same files as that for GPUs.
    yes = "" if pip.startswith("uv") else "-y "
    remove = f"{pip} uninstall {yes}onnxruntime onnxruntime-gpu"
    return (*((remove,) if gpu else ()), f"{pip} install {package}")


def find_python(root: Path) -> str:
    """Return the version of Python for CI, ``3.12``: from the file ``.python-version``, else this version."""
    file = root / ".python-version"
    named = re.match(r"3\.\d+", file.read_text("utf-8", "replace")) if file.is_file() else None
    return named[0] if named else f"3.{sys.version_info.minor}"
