"""Packages of one repository, each with a root of pytest and tests of the same names, share a history."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pytest_quant.history import open_store
from pytest_quant.spec import SeriesKey
from tests.support import models
from tests.support.in_process import run_here
from tests.support.repository import ScratchRepository, make_repository, without_ci

CONFTEST = """
import numpy as np
import pytest
from pytest_quant import Dataset, Model


@pytest.fixture
def quant_model(request):
    return Model.from_onnx(request.path.parent / "net.onnx")


@pytest.fixture
def quant_data():
    x = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)
    y = (x[:, :4].argmax(axis=1) + (np.arange(500) % 10 < {wrong})) % 4
    return Dataset.from_arrays(x, y, calibration=100)
"""
TEST = "import pytest\n\n@pytest.mark.quant({mark})\ndef test_int8(): pass\n"
FILE = "tests/test_q.py"
TOPIC = 'max_drop=90, calibration={"samples": 1}'


@pytest.fixture
def packages(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> ScratchRepository:
    """Packages a and b, whose branches are ``main`` and ``topic``; b's labels are half wrong."""
    without_ci(monkeypatch)
    repository = make_repository(pytester.path / "repository")
    for name, wrong in (("a", 0), ("b", 5)):
        tests = repository.path / name / "tests"
        tests.mkdir(parents=True)
        (tests.parent / "pytest.ini").write_text("[pytest]\n")
        (tests / "conftest.py").write_text(CONFTEST.format(wrong=wrong))
        (tests / "test_q.py").write_text(TEST.format(mark="max_drop=90"))
        models.select_first(tests / "net.onnx")
    (repository.path / ".gitignore").write_text(".quant\n__pycache__\n")
    repository.git("add", "-A")
    repository.git("commit", "-m", "one")
    monkeypatch.setenv("PYTEST_QUANT_HISTORY", str(pytester.path / "history.db"))
    return repository


def run(pytester: pytest.Pytester, folder: Path, *words: str) -> pytest.RunResult:
    """Run the tests of a package, in its folder."""
    os.chdir(folder)
    try:
        options = ("-p", "no:cacheprovider", "--quant-no-latency", f"--quant-cache={pytester.path / 'cache'}")
        return run_here(pytester, *options, "--quant-diagnose-time=0", *words)
    finally:
        os.chdir(pytester.path)


def worse(repository: ScratchRepository, package: str, mark: str = TOPIC) -> None:
    """Commit worse calibration of a package on the branch ``topic``."""
    repository.git("switch", "-C", "topic")
    (repository.path / package / FILE).write_text(TEST.format(mark=mark))
    repository.git("commit", "-am", "worse")


def test_a_regression_is_one_whatever_other_packages_recorded(
    pytester: pytest.Pytester, packages: ScratchRepository
) -> None:
    """The base of a test is the same test, not one of its name; tests of other packages are not gone."""
    for package in ("a", "b"):
        assert run(pytester, packages.path / package).ret == 0
    worse(packages, "a")
    of_a = run(pytester, packages.path / "a", "--quant-compare")
    of_b = run(pytester, packages.path / "b", "--quant-compare")
    assert (of_a.ret, of_b.ret) == (1, 0)
    of_a.stdout.fnmatch_lines(["REGRESSION: 1 regression*", "tests/test_q.py::test_int8 net ort-int8-static"])
    of_b.stdout.fnmatch_lines(["NO REGRESSION*"])
    assert "removed" not in of_a.stdout.str() + of_b.stdout.str()
    names = {SeriesKey.parse(key).test for key in open_store(pytester.path / "history.db").series_keys()}
    assert names == {f"{package}/{FILE}::test_int8" for package in ("a", "b")}


def test_the_base_is_the_newest_with_a_record_of_the_package(
    pytester: pytest.Pytester, packages: ScratchRepository
) -> None:
    """CI may run only the packages that a commit touches: a commit with records of b alone is no base of a."""
    assert run(pytester, packages.path / "a").ret == 0
    packages.commit("two")
    assert run(pytester, packages.path / "b").ret == 0
    worse(packages, "a")
    of_a = run(pytester, packages.path / "a", "--quant-compare")
    assert of_a.ret == 1
    of_a.stdout.fnmatch_lines(["base *: 1 first parent below *", "REGRESSION: 1 regression*"])


def test_limits_on_earlier_records_are_those_of_the_package(
    pytester: pytest.Pytester, packages: ScratchRepository
) -> None:
    """`max_drop_increase` against a's own records, where b's newer ones have as large a drop as a has now."""
    (packages.path / "b" / "tests" / "conftest.py").write_text(CONFTEST.format(wrong=0))
    worse(packages, "b")
    packages.git("switch", "-C", "main")
    for package in ("a", "b"):
        assert run(pytester, packages.path / package).ret == 0
    worse(packages, "a", f"{TOPIC}, max_drop_increase=1.0")
    of_a = run(pytester, packages.path / "a")
    assert of_a.ret == 1
    of_a.stdout.fnmatch_lines(["FAILED tests/test_q.py::test_int8 - max_drop_increase *"])


def keys_of(pytester: pytest.Pytester, folder: Path, *words: str) -> set[str]:
    """Return the keys of the series of one run."""
    document = pytester.path / "run.json"
    document.unlink(missing_ok=True)
    assert run(pytester, folder, "--quant-no-history", f"--quant-json={document}", *words).ret == 0
    return {check["series"] for check in json.loads(document.read_text("utf-8"))["checks"]}


def test_one_file_has_one_key_however_it_is_reached(pytester: pytest.Pytester, packages: ScratchRepository) -> None:
    """From the package, from the top with another root, in a worktree, behind links, and from an editor's workspace."""
    top, package = packages.path, packages.path / "a"
    wanted = {SeriesKey(f"a/{FILE}::test_int8", "net", "ort", "int8", "static", 1, "top1").text}
    packages.git("worktree", "add", str(pytester.path / "tree"))
    (pytester.path / "checkout").symlink_to(top)
    (pytester.path / "package").symlink_to(package)
    assert keys_of(pytester, package) == wanted
    assert keys_of(pytester, top, f"--rootdir={top}", f"a/{FILE}") == wanted
    assert keys_of(pytester, package, f"--rootdir={package / 'tests'}", "tests") == wanted
    assert keys_of(pytester, package, f"--rootdir={top / 'b'}", FILE) == wanted
    assert keys_of(pytester, pytester.path / "tree" / "a") == wanted
    assert keys_of(pytester, pytester.path / "checkout" / "a") == wanted
    assert keys_of(pytester, pytester.path / "package") == wanted
