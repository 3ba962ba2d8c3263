"""What a repository shows is not asked for: its forge, its branch, the folder of its tests, and its installation."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.errors import UsageError
from pytest_quant.init.project import (
    Project,
    find_forge,
    find_installation,
    find_project,
    find_python,
    is_installable,
    requirement,
)
from tests.support.distribution import GIT_URL, installed
from tests.support.repository import make_repository

SPLITTER = '"pytest-split>=0.11"'
PACKAGE = f'"pytest-quant[ort]=={version("pytest-quant")}"'
OURS = f"python -m pip install {PACKAGE}"
REMOVE = "python -m pip uninstall -y onnxruntime onnxruntime-gpu"
UV = ("python -m pip install uv", "uv sync --locked --all-groups")
SSH_URL = "ssh://git@host.invalid/me/pytest-quant.git"
FROM_GIT = {"vcs": "git", "commit_id": "c0ffee"}
HERE = f"3.{sys.version_info.minor}"


def project(root: Path, remote: str) -> Project:
    """Return a project with a remote."""
    return Project(root, remote, "main", "tests/quant", configured=True, sources=".")


def write(root: Path, files: dict[str, str]) -> Path:
    """Write the files of a project; a name that ends in a slash is a folder."""
    for name, text in files.items():
        target = root / name
        if name.endswith("/"):
            target.mkdir(parents=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    return root


def project_of(root: Path, files: dict[str, str]) -> Project:
    """Return what is found out of a new repository with these files, which lies in a folder of its own."""
    return find_project(write(make_repository(root / "models").path, files))


@pytest.mark.parametrize(
    ("address", "forge"),
    [
        ("git@github.com:me/models.git", "github"),
        ("https://github.example.org/me/models", "github"),
        ("https://gitlab.com/group/models.git", "gitlab"),
        ("https://token:x@GitHub.example.org:8443/me/models", "github"),
        ("github-work:me/models.git", "github"),
        ("git://gitlab.com/group/models", "gitlab"),
        ("ssh://git@gitlab.example.org:2222/group/models.git", "gitlab"),
        ("", None),
        ("file:///srv/gitlab/models.git", None),
        ("https://me:secret@code.example.org/models.git", None),
        ("ssh://code.example.org/gitlab/m", None),
    ],
)
def test_the_host_names_the_forge(tmp_path: Path, address: str, forge: str | None) -> None:
    """Also that of a server of one's own; an unknown one is no forge."""
    assert find_forge(project(tmp_path, address)) == forge


@pytest.mark.parametrize(("sign", "forge"), [(".github/workflows", "github"), (".gitlab", "gitlab")])
def test_files_name_the_forge_where_the_host_does_not(tmp_path: Path, sign: str, forge: str) -> None:
    """A mirror has any address."""
    (tmp_path / sign).mkdir(parents=True)
    assert find_forge(project(tmp_path, "https://code.example.org/models")) == forge


def test_a_folder_below_finds_the_top(tmp_path: Path) -> None:
    """Workflows lie there and nowhere else; the remote is ``origin``, else the only one."""
    repository = make_repository(tmp_path / "models")
    (repository.path / "a" / "b").mkdir(parents=True)
    repository.git("remote", "add", "upstream", "git@gitlab.com:group/models.git")
    below = find_project(repository.path / "a" / "b")
    assert below.root.samefile(repository.path)
    assert below.remote == "git@gitlab.com:group/models.git"
    repository.git("remote", "add", "fork", "git@github.com:me/models.git")
    assert find_project(repository.path).remote == ""
    repository.git("remote", "add", "origin", "git@github.com:them/models.git")
    assert find_project(repository.path).remote == "git@github.com:them/models.git"


def test_a_name_that_a_workflow_would_read_as_something_else_is_refused(tmp_path: Path) -> None:
    """Git takes quotes and dollars in the name of a branch."""
    repository = make_repository(tmp_path / "models")
    repository.git("symbolic-ref", "HEAD", 'refs/heads/a"$b')
    with pytest.raises(UsageError, match="target branch"):
        find_project(repository.path)


IN_INI = "[pytest]\ntestpaths = c o\npythonpath = ./src\n"
AS_LISTS = '[tool.pytest.ini_options]\ntestpaths = ["a b"]\npythonpath = ["lib", "src/"]\n'
AS_TEXT = '[tool.pytest.ini_options]\ntestpaths = "a"\npythonpath = "lib"\n'


@pytest.mark.parametrize(
    ("files", "required"),
    [
        ({"pytest.ini": "[pytest]\nrequired_plugins = pytest-xdist pytest-quant>=0.1\n"}, True),
        ({"tox.ini": "[pytest]\nrequired_plugins =\n  pytest-quant\n"}, True),
        ({"setup.cfg": "[tool:pytest]\nrequired_plugins = pytest-quant\n"}, True),
        ({"pyproject.toml": '[tool.pytest.ini_options]\nrequired_plugins = ["pytest-quant"]\n'}, True),
        ({"pyproject.toml": '[tool.pytest.ini_options]\nrequired_plugins = "pytest-xdist"\n'}, False),
        ({"pyproject.toml": ""}, False),
        ({"pytest.ini": "[pytest]\n"}, False),
        ({}, False),
    ],
    ids=str,
)
def test_a_configuration_may_need_the_plugin(tmp_path: Path, files: dict[str, str], required: bool) -> None:
    """In each file that pytest reads, alone or with a version and others."""
    assert project_of(tmp_path, files).required is required


@pytest.mark.parametrize(
    ("files", "folder", "configured", "sources", "searched"),
    [
        ({}, "tests/quant", False, ".", False),
        ({"test_all.py": ""}, ".", False, ".", False),
        ({"test_all.py": "", "test/": "", "src/__init__.py": ""}, "test/quant", False, ".", False),
        ({"tox.ini": "[tox]\n", "src/nets/": ""}, "tests/quant", False, "src", False),
        ({"tox.ini": "[pytest]\ntestpaths = a/\n", "a/": ""}, "a/quant", True, ".", False),
        ({"setup.cfg": "[tool:pytest]\ntestpaths =\n  a\n", "a/": ""}, "a/quant", True, ".", False),
        ({"pytest.ini": IN_INI, "c/": "", "src/": ""}, "c/quant", True, "src", True),
        ({"pyproject.toml": "", "tests/": ""}, "tests/quant", True, ".", False),
        ({"pyproject.toml": AS_LISTS, "a b/": "", "src/": ""}, "tests/quant", True, "src", True),
        ({"pyproject.toml": AS_TEXT, "a/": "", "src/": ""}, "a/quant", True, "src", False),
    ],
    ids=str,
)
def test_a_project_is_what_its_files_say(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    folder: str,
    configured: bool,
    sources: str,
    searched: bool,
) -> None:
    """The folder of tests, and that of sources with what pytest searches; the root as pytest sees it from below."""
    project = project_of(pytester.path, {**files, "below/": ""})
    assert (project.folder, project.configured) == (folder, configured)
    assert (project.sources, project.searched) == (sources, searched)
    monkeypatch.chdir(project.root / "below")
    assert (pytester.parseconfig(str(project.root / "below")).rootpath == project.root) is configured


@pytest.mark.parametrize(
    "text",
    [
        *("tool = []", '[tool]\npytest = "x"', "[tool.pytest]\nini_options = 5"),
        *(f"[tool.pytest.ini_options]\n{name} = [5]" for name in ("testpaths", "pythonpath")),
    ],
)
def test_a_configuration_of_other_types_is_none(tmp_path: Path, text: str) -> None:
    """Pytest says what is wrong with it; one without an end is told here, and a pipe is not waited for."""
    result = project_of(tmp_path, {"pyproject.toml": text})
    assert (result.folder, result.searched) == ("tests/quant", False)
    os.mkfifo(result.root / "pytest.ini")
    assert find_project(result.root) == result
    (result.root / "pyproject.toml").write_text(f"x = {'[' * 5000}")
    with pytest.raises(UsageError, match="cannot be read"):
        find_project(result.root)


@pytest.mark.parametrize(
    ("files", "gpu", "lines"),
    [
        ({}, False, (f"{OURS} {SPLITTER}",)),
        ({}, True, (OURS,)),
        (
            {"requirements.txt": ""},
            False,
            (f"python -m pip install -r requirements.txt {PACKAGE} {SPLITTER}",),
        ),
        ({"requirements.txt": ""}, True, ("python -m pip install -r requirements.txt", REMOVE, OURS)),
        (
            {"pyproject.toml": "[project]\n"},
            False,
            (f"python -m pip install -e . {PACKAGE} {SPLITTER}",),
        ),
        ({"setup.py": ""}, False, (f"python -m pip install -e . {PACKAGE} {SPLITTER}",)),
        (
            {"uv.lock": "", "requirements.txt": ""},
            False,
            (*UV, f"uv pip install {PACKAGE} {SPLITTER}"),
        ),
        (
            {"uv.lock": ""},
            True,
            (*UV, "uv pip uninstall onnxruntime onnxruntime-gpu", f"uv pip install {PACKAGE}"),
        ),
        (
            {"poetry.lock": ""},
            False,
            (
                "python -m pip install poetry",
                "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction",
                f"python -m pip --python .venv install {PACKAGE} {SPLITTER}",
            ),
        ),
    ],
    ids=str,
)
def test_the_project_is_installed_by_its_own_manager(
    tmp_path: Path, files: dict[str, str], gpu: bool, lines: tuple[str, ...]
) -> None:
    """With this version of this package. Wheels of ONNX Runtime have the same files: they go before one for GPUs."""
    installation = find_installation(write(tmp_path, files), ["ort"], gpu=gpu)
    assert installation.lines == lines
    by_lock = "uv.lock" in files or "poetry.lock" in files
    assert (installation.programs == ".venv/bin") is by_lock
    # setup-python fails where the file is not there from which its cache of pip takes the key.
    assert installation.pip_cached is (
        not by_lock and not files.keys().isdisjoint({"requirements.txt", "pyproject.toml"})
    )


@pytest.mark.parametrize(
    ("origin", "pin", "installable"),
    [
        (None, "==9.9", True),
        ({"url": GIT_URL, "vcs_info": FROM_GIT}, f" @ git+{GIT_URL}@c0ffee", True),
        ({"url": SSH_URL, "vcs_info": FROM_GIT}, f" @ git+{SSH_URL}@c0ffee", True),
        ({"url": "file:///home/me/quant", "vcs_info": FROM_GIT}, "==9.9", False),
        ({"url": "https://host.invalid/$(reboot)", "vcs_info": FROM_GIT}, "==9.9", False),
        ({"url": "https://host.invalid/quant", "vcs_info": FROM_GIT | {"vcs": "hg"}}, "==9.9", False),
        ({"url": "file:///home/me/quant", "dir_info": {"editable": True}}, "==9.9", False),
        ({"url": "file:///home/me/quant.whl", "archive_info": {}}, "==9.9", False),
    ],
    ids=str,
)
def test_this_package_is_installed_from_where_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any] | None, pin: str, installable: bool
) -> None:
    """By ``direct_url.json`` of PEP 610: an index has none, CI can reach no folder, and no address runs a command."""
    installed(tmp_path, origin)
    monkeypatch.syspath_prepend(tmp_path)
    assert requirement("ort", "torch") == f"pytest-quant[ort,torch]{pin}"
    assert requirement() == f"pytest-quant{pin}"
    assert is_installable() is installable


@pytest.mark.parametrize(("gpu", "more"), [(False, (f"python -m pip install {SPLITTER}",)), (True, (REMOVE, OURS))])
def test_the_commands_of_the_user_are_taken_as_they_are(tmp_path: Path, gpu: bool, more: tuple[str, ...]) -> None:
    """Whatever files are there; what the workflow itself needs comes after them."""
    write(tmp_path, {"uv.lock": "", "pyproject.toml": "[project\n"})
    installation = find_installation(tmp_path, ["ort"], "make venv\nmake install", gpu=gpu)
    assert installation.lines == ("make venv", "make install", *more)


@pytest.mark.parametrize(
    ("pinned", "expected"), [(None, HERE), ("3.11.7\n", "3.11"), ("3.12\n", "3.12"), ("pypy\n", HERE), ("3.x\n", HERE)]
)
def test_python_is_the_one_of_the_project(tmp_path: Path, pinned: str | None, expected: str) -> None:
    """A pinned one, else this one."""
    assert find_python(write(tmp_path, {} if pinned is None else {".python-version": pinned})) == expected
