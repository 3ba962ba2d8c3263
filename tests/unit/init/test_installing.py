"""How CI installs a project is read from its files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_quant.errors import UsageError
from pytest_quant.init.installing import find_installing, find_python

OURS = 'python -m pip install "pytest-quant[ort]"'
PLAIN = '[project]\nname = "x"\nversion = "1"\n'
NAMED = PLAIN + '[project.optional-dependencies]\ntest = ["Pytest_Quant[ort]>=0.1"]\n'
GROUP = PLAIN + '[dependency-groups]\nci = ["pytest-quant[ort]", {include-group = "dev"}]\ndev = ["ruff"]\n'
POETRY = '[tool.poetry]\nname = "x"\n[tool.poetry.group.test.dependencies]\npytest-quant = "*"\n'


def write(root: Path, files: Mapping[str, str]) -> None:
    """Write the files of a project."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


CASES: list[tuple[dict[str, str], str, tuple[str, ...], str]] = [
    ({}, "pip", (OURS,), ""),
    ({"requirements.txt": "numpy\n"}, "pip", ('python -m pip install -r requirements.txt "pytest-quant[ort]"',), ""),
    (
        {"requirements.txt": "numpy\n", "requirements-dev.txt": "-r requirements.txt\npytest-quant[ort]  # ours\n"},
        "pip",
        ("python -m pip install -r requirements-dev.txt",),
        "",
    ),
    (
        {"requirements/with space.txt": "pytest_quant\n"},
        "pip",
        ("python -m pip install -r 'requirements/with space.txt'",),
        "",
    ),
    ({"pyproject.toml": PLAIN}, "pip", ('python -m pip install -e . "pytest-quant[ort]"',), ""),
    ({"pyproject.toml": "[tool.ruff]\n"}, "pip", (OURS,), ""),
    ({"pyproject.toml": NAMED}, "pip", ('python -m pip install -e ".[test]"',), ""),
    (
        {"pyproject.toml": GROUP},
        "pip",
        ("python -m pip install --upgrade pip", "python -m pip install -e . --group ci"),
        "",
    ),
    ({"setup.py": ""}, "pip", ('python -m pip install -e . "pytest-quant[ort]"',), ""),
    (
        {"pyproject.toml": PLAIN, "uv.lock": ""},
        "uv",
        ("python -m pip install uv", "uv sync --locked --all-groups", 'uv pip install "pytest-quant[ort]"'),
        ".venv/bin",
    ),
    (
        {"pyproject.toml": NAMED, "uv.lock": "", "requirements.txt": ""},
        "uv",
        ("python -m pip install uv", "uv sync --locked --all-groups --extra test"),
        ".venv/bin",
    ),
    (
        {"pyproject.toml": POETRY, "poetry.lock": ""},
        "poetry",
        ("python -m pip install poetry", "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction"),
        ".venv/bin",
    ),
    (
        {"pyproject.toml": "[tool.poetry]\n", "poetry.lock": ""},
        "poetry",
        (
            "python -m pip install poetry",
            "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction",
            'python -m pip --python .venv/bin/python install "pytest-quant[ort]"',
        ),
        ".venv/bin",
    ),
]


@pytest.mark.parametrize(("files", "manager", "lines", "programs"), CASES, ids=lambda one: str(one)[:40])
def test_the_project_is_installed_by_its_own_manager(
    tmp_path: Path, files: dict[str, str], manager: str, lines: tuple[str, ...], programs: str
) -> None:
    """With this package, where the project does not ask for it by itself."""
    write(tmp_path, files)
    found = find_installing(tmp_path, ["ort"])
    assert (found.manager, found.lines, found.programs) == (manager, lines, programs)


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml", "other.txt"])
def test_pip_is_cached_where_its_key_has_a_file(tmp_path: Path, name: str) -> None:
    """setup-python fails where neither of the two files is there."""
    write(tmp_path, {name: ""})
    assert find_installing(tmp_path, ["ort"]).cached == (name != "other.txt")


@pytest.mark.parametrize(
    ("files", "removes"),
    [({}, ""), ({"requirements.txt": "pytest-quant[ort]\n"}, "python -m pip uninstall -y onnxruntime onnxruntime-gpu")],
)
def test_other_extras_come_beside_those_that_the_project_names(
    tmp_path: Path, files: dict[str, str], removes: str
) -> None:
    """Two wheels of ONNX Runtime have the same files: both go before the one for GPUs comes."""
    write(tmp_path, files)
    lines = find_installing(tmp_path, ["gpu", "trt"], beside=True).lines
    assert lines[-1] == 'python -m pip install "pytest-quant[gpu,trt]"'
    assert lines[:-1] == (("python -m pip install -r requirements.txt", removes) if removes else ())


def test_a_broken_pyproject_is_told(tmp_path: Path) -> None:
    """With the parser's own words."""
    write(tmp_path, {"pyproject.toml": "[project\n"})
    with pytest.raises(UsageError, match=r"pyproject\.toml cannot be read"):
        find_installing(tmp_path, [])


HERE = f"3.{sys.version_info.minor}"


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({}, HERE),
        ({".python-version": "3.11.7\n"}, "3.11"),
        ({".python-version": "pypy\n"}, HERE),
        ({".python-version": "3.x\n"}, HERE),
        ({"pyproject.toml": '[project]\nrequires-python = ">=3.11"\n'}, HERE),
        ({"pyproject.toml": '[project]\nrequires-python = "==3.99.*"\n'}, HERE),
        ({"pyproject.toml": '[project]\nrequires-python = "nonsense"\n'}, HERE),
        ({".python-version": "3.12\n", "pyproject.toml": '[project]\nrequires-python = "==3.13.*"\n'}, "3.12"),
    ],
    ids=str,
)
def test_python_is_the_one_of_the_project(tmp_path: Path, files: dict[str, str], version: str) -> None:
    """A pinned one, else this one where it may be."""
    write(tmp_path, files)
    assert find_python(tmp_path) == version


def test_the_oldest_python_is_taken_where_this_one_may_not_be(tmp_path: Path) -> None:
    """Whichever minor version runs the test, the other is asked for."""
    only = 13 if sys.version_info.minor != 13 else 12
    write(tmp_path, {"pyproject.toml": f'[project]\nrequires-python = "==3.{only}.*"\n'})
    assert find_python(tmp_path) == f"3.{only}"
