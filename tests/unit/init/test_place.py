"""Tests go where the project has its own, and never among files that they could be taken for."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.init.place import find_place


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
        ({"pyproject.toml": "[tool"}, "tests/quant"),
        ({"tox.ini": "no section\n"}, "tests/quant"),
    ],
    ids=str,
)
def test_the_folder_is_below_the_one_of_the_project(tmp_path: Path, files: dict[str, str], folder: str) -> None:
    """Its first test path that is there, else a usual name, else the root where tests are."""
    assert find_place(write(tmp_path, files)).folder == folder


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
    write(pytester.path, {**files, "tests/quant/": ""})
    assert find_place(pytester.path).configured is configured
    monkeypatch.chdir(pytester.path / "tests" / "quant")
    config = pytester.parseconfig(str(pytester.path / "tests" / "quant"))
    assert (config.rootpath == pytester.path) is configured


@pytest.mark.parametrize(
    ("files", "sources"), [({}, "."), ({"src/nets/": ""}, "src"), ({"src/__init__.py": ""}, ".")], ids=str
)
def test_modules_are_imported_from_a_folder_of_sources(tmp_path: Path, files: dict[str, str], sources: str) -> None:
    """Where ``src`` is not a package itself."""
    assert find_place(write(tmp_path, files)).sources == sources


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
    assert find_place(write(tmp_path, {**files, "src/nets/": ""})).searched is searched
