"""What a repository shows is not asked for: its forge, its branch, the folder of its tests, and its installation."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_quant.errors import UsageError
from pytest_quant.init.project import (
    Project,
    find_forge,
    find_installation,
    find_project,
    find_python,
    is_kept_by_git,
)
from tests.support.repository import make_repository

OURS = 'python -m pip install "pytest-quant[ort]"'
REMOVE = "python -m pip uninstall -y onnxruntime onnxruntime-gpu"
UV = ("python -m pip install uv", "uv sync --locked --all-groups")
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


def found(root: Path, files: dict[str, str]) -> Project:
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
    ],
)
def test_the_host_names_the_forge(tmp_path: Path, address: str, forge: str) -> None:
    """Also that of a server of one's own."""
    assert find_forge(project(tmp_path, address)) == forge


@pytest.mark.parametrize(("sign", "forge"), [(".github/workflows", "github"), (".gitlab", "gitlab")])
def test_files_name_the_forge_where_the_host_does_not(tmp_path: Path, sign: str, forge: str) -> None:
    """A mirror has any address."""
    (tmp_path / sign).mkdir(parents=True)
    assert find_forge(project(tmp_path, "https://code.example.org/models")) == forge


@pytest.mark.parametrize(
    "address",
    [
        "",
        "../models.git",
        "file:///srv/gitlab/models.git",
        "https://me:secret@code.example.org/models.git",
        "/srv/github/models.git",
        "ssh://code.example.org/gitlab/m",
    ],
)
def test_an_unknown_remote_is_told_with_both_ways_out(tmp_path: Path, address: str) -> None:
    """Its address is shown without the password; a folder that is called as a forge is none."""
    with pytest.raises(UsageError) as error:
        find_forge(project(tmp_path, address))
    text = str(error.value)
    assert "--github" in text
    assert "--gitlab" in text
    assert "secret" not in text
    assert address.rpartition("@")[2].partition("//")[2] in text


def test_a_folder_below_finds_the_top(tmp_path: Path) -> None:
    """Workflows lie there and nowhere else; the remote is ``origin``, else the only one."""
    made = make_repository(tmp_path / "models")
    (made.path / "a" / "b").mkdir(parents=True)
    made.git("remote", "add", "upstream", "git@gitlab.com:group/models.git")
    below = find_project(made.path / "a" / "b")
    assert below.root.samefile(made.path)
    assert below.remote == "git@gitlab.com:group/models.git"
    made.git("remote", "add", "fork", "git@github.com:me/models.git")
    assert find_project(made.path).remote == ""
    made.git("remote", "add", "origin", "git@github.com:them/models.git")
    assert find_project(made.path).remote == "git@github.com:them/models.git"


def test_a_name_that_a_workflow_would_read_as_something_else_is_refused(tmp_path: Path) -> None:
    """Git takes quotes and dollars in the name of a branch."""
    made = make_repository(tmp_path / "models")
    made.git("symbolic-ref", "HEAD", 'refs/heads/a"$b')
    with pytest.raises(UsageError, match="target branch"):
        find_project(made.path)


def test_what_git_has_of_a_file_is_known(tmp_path: Path) -> None:
    """Whether a clone has it."""
    made = make_repository(tmp_path / "models")
    made.commit("one")
    assert is_kept_by_git(made.path, "file")
    assert not is_kept_by_git(made.path, "other")


@pytest.mark.parametrize(
    ("files", "folder"),
    [
        ({}, "tests/quant"),
        ({"test/": ""}, "test/quant"),
        ({"tests/": "", "test/": ""}, "tests/quant"),
        ({"test_all.py": ""}, "."),
        ({"test_all.py": "", "tests/": ""}, "tests/quant"),
        ({"pytest.ini": "[pytest]\ntestpaths = checks other\n", "checks/": "", "tests/": ""}, "checks/quant"),
        ({"pytest.ini": "[pytest]\ntestpaths = missing\n", "tests/": ""}, "tests/quant"),
        ({"tox.ini": "[pytest]\ntestpaths = a/\n", "a/": ""}, "a/quant"),
        ({"setup.cfg": "[tool:pytest]\ntestpaths =\n  a\n", "a/": ""}, "a/quant"),
        ({"pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["a b"]\n', "a b/": ""}, "tests/quant"),
        ({"pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["../a"]\n'}, "tests/quant"),
        ({"pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = "a"\n', "a/": ""}, "a/quant"),
        ({"tox.ini": "no section\n"}, "tests/quant"),
    ],
    ids=str,
)
def test_the_folder_is_below_the_one_of_the_project(tmp_path: Path, files: dict[str, str], folder: str) -> None:
    """Its first test path that is there, else a usual name, else the root where tests are."""
    assert found(tmp_path, files).folder == folder


@pytest.mark.parametrize(
    ("files", "configured"),
    [
        ({}, False),
        ({"pytest.ini": ""}, True),
        ({"pyproject.toml": ""}, True),
        ({"setup.py": ""}, True),
        ({"tox.ini": "[tox]\n"}, False),
        ({"tox.ini": "[pytest]\n"}, True),
        ({"setup.cfg": "[metadata]\n"}, False),
        ({"setup.cfg": "[tool:pytest]\n"}, True),
    ],
    ids=str,
)
def test_what_marks_the_root_directory_is_known(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], configured: bool
) -> None:
    """The same as pytest says it does, started in a folder below."""
    root = found(pytester.path, {**files, "tests/quant/": ""}).root
    assert find_project(root).configured is configured
    monkeypatch.chdir(root / "tests" / "quant")
    config = pytester.parseconfig(str(root / "tests" / "quant"))
    assert (config.rootpath == root) is configured


@pytest.mark.parametrize(
    ("files", "sources"), [({}, "."), ({"src/nets/": ""}, "src"), ({"src/__init__.py": ""}, ".")], ids=str
)
def test_modules_are_imported_from_a_folder_of_sources(tmp_path: Path, files: dict[str, str], sources: str) -> None:
    """Where ``src`` is not a package itself."""
    assert found(tmp_path, files).sources == sources


@pytest.mark.parametrize(
    ("files", "searched"),
    [
        ({"pyproject.toml": ""}, False),
        ({"pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["lib", "src/"]\n'}, True),
        ({"pyproject.toml": '[tool.pytest.ini_options]\npythonpath = "lib"\n'}, False),
        ({"pytest.ini": "[pytest]\npythonpath = ./src\n"}, True),
    ],
    ids=str,
)
def test_whether_pytest_searches_that_folder_is_known(tmp_path: Path, files: dict[str, str], searched: bool) -> None:
    """As its configuration says, however the folder is written."""
    assert found(tmp_path, {**files, "src/nets/": ""}).searched is searched


@pytest.mark.parametrize(
    ("files", "gpu", "lines"),
    [
        ({}, False, (OURS,)),
        ({}, True, (OURS,)),
        ({"requirements.txt": ""}, False, ('python -m pip install -r requirements.txt "pytest-quant[ort]"',)),
        ({"requirements.txt": ""}, True, ("python -m pip install -r requirements.txt", REMOVE, OURS)),
        ({"pyproject.toml": "[project]\n"}, False, ('python -m pip install -e . "pytest-quant[ort]"',)),
        ({"pyproject.toml": "[build-system]\n"}, False, ('python -m pip install -e . "pytest-quant[ort]"',)),
        ({"pyproject.toml": "[tool.ruff]\n"}, False, (OURS,)),
        ({"setup.py": ""}, False, ('python -m pip install -e . "pytest-quant[ort]"',)),
        ({"uv.lock": "", "requirements.txt": ""}, False, (*UV, 'uv pip install "pytest-quant[ort]"')),
        (
            {"uv.lock": ""},
            True,
            (*UV, "uv pip uninstall onnxruntime onnxruntime-gpu", 'uv pip install "pytest-quant[ort]"'),
        ),
        (
            {"poetry.lock": ""},
            False,
            (
                "python -m pip install poetry",
                "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction",
                'python -m pip --python .venv/bin/python install "pytest-quant[ort]"',
            ),
        ),
    ],
    ids=str,
)
def test_the_project_is_installed_by_its_own_manager(
    tmp_path: Path, files: dict[str, str], gpu: bool, lines: tuple[str, ...]
) -> None:
    """With this package; both wheels of ONNX Runtime have the same files, so they go before one for GPUs comes."""
    installation = find_installation(write(tmp_path, files), ["ort"], gpu=gpu)
    assert installation.lines == lines
    assert (installation.programs == ".venv/bin") is ("uv.lock" in files or "poetry.lock" in files)


@pytest.mark.parametrize(("gpu", "more"), [(False, ()), (True, (REMOVE, OURS))])
def test_the_commands_of_the_user_are_taken_as_they_are(tmp_path: Path, gpu: bool, more: tuple[str, ...]) -> None:
    """Whatever files are there."""
    write(tmp_path, {"uv.lock": "", "pyproject.toml": "[project\n"})
    installation = find_installation(tmp_path, ["ort"], "make venv\nmake install", gpu=gpu)
    assert installation.lines == ("make venv", "make install", *more)


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml", "other.txt"])
def test_pip_is_cached_where_its_key_has_a_file(tmp_path: Path, name: str) -> None:
    """setup-python fails where neither of the two files is there."""
    assert find_installation(write(tmp_path, {name: ""}), ["ort"]).pip_cached == (name != "other.txt")


@pytest.mark.parametrize(
    ("pinned", "version"), [(None, HERE), ("3.11.7\n", "3.11"), ("3.12\n", "3.12"), ("pypy\n", HERE), ("3.x\n", HERE)]
)
def test_python_is_the_one_of_the_project(tmp_path: Path, pinned: str | None, version: str) -> None:
    """A pinned one, else this one."""
    assert find_python(write(tmp_path, {} if pinned is None else {".python-version": pinned})) == version
