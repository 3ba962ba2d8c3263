"""The script that draws mutants tells those that tests see from those that none sees."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.test_mirror import ELSEWHERE, ROOT

pytest.importorskip("mutmut", reason="the extra dev brings mutmut")

from tests import mutants
from tests.mutants import PACKAGES, Project, draw, report, stages, survivors

RULES = '''"""Two rules, of which one has a test."""


def is_above(one: float | None, other: float) -> bool:
    """Say whether `one` is larger."""
    return one > other


def is_below(one: float | None, other: float) -> bool:
    """Say whether `one` is smaller."""
    return one < other
'''
TESTS = """
from planted.deciding.rules import is_above


def test_above():
    assert is_above(2.0, 1.0) is True
    assert is_above(1.0, 1.0) is False
"""
LOOP = """
def count(to):
    n = 0
    while n < to:
        n += 1
    return n
"""


def plant(root: Path, rules: str, tests: str) -> Project:
    """Return a project of one package with one module and its mirrored tests."""
    for file, text in {
        "planted/__init__.py": "",
        "planted/deciding/__init__.py": "",
        "planted/deciding/rules.py": rules,
        "tests/unit/deciding/test_rules.py": tests,
    }.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text, encoding="utf-8")
    return Project(root, "planted", {})


def test_what_no_test_sees_is_told_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both faults of the tested rule die; both of the other one survive, which is too few for 90 %."""
    project = plant(tmp_path, RULES, TESTS)
    assert report(project, ["deciding"], 10, 0, 90.0) == 1
    text = capsys.readouterr().out
    assert text.count("planted/deciding/rules.py:11\n-    return one < other\n+") == 2
    assert "rules.py:6" not in text
    assert "deciding: 2 of 4 mutants die (seed 0)" in text
    assert "50.0 % of 4 die; 90 % must" in text
    assert (tmp_path / "planted/deciding/rules.py").read_text("utf-8") == RULES


def test_enough_that_die_end_well(tmp_path: Path) -> None:
    """Where the tests see every fault, even a share of 100 % is reached."""
    tested = RULES[: RULES.index("def is_below")]
    assert report(plant(tmp_path, tested, TESTS), ["deciding"], 10, 0, 100.0) == 0


def test_a_mutant_that_never_ends_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tests are ended, and the next mutant is tried."""
    monkeypatch.setattr(mutants, "_SPARE_S", 0.0)
    project = plant(
        tmp_path, LOOP, "from planted.deciding.rules import count\n\n\ndef test_it():\n    assert count(3) == 3\n"
    )
    drawn = [one for one in draw(project, "deciding", 99, 0) if one.line in (4, 5)]
    assert any("pass" in one.code or "n -= 1" in one.code for one in drawn)
    assert list(survivors(project, drawn)) == []


def test_tests_that_fail_by_themselves_are_no_judges(tmp_path: Path) -> None:
    """Otherwise every mutant would be called dead."""
    project = plant(tmp_path, RULES, "def test_it():\n    assert False\n")
    with pytest.raises(RuntimeError, match=r"without a mutant these fail: tests/unit/deciding/test_rules.py"):
        list(survivors(project, draw(project, "deciding", 1, 0)))


def test_a_seed_gives_the_same_mutants_again() -> None:
    """Another seed gives others, and no two of one seed are equal."""
    project = Project(ROOT, "pytest_quant", ELSEWHERE)
    drawn = draw(project, "stats", 5, 1)
    assert len(set(drawn)) == 5
    assert drawn == draw(project, "stats", 5, 1)
    assert drawn != draw(project, "stats", 5, 2)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_mutant_is_one_fault_in_what_runs(package: str) -> None:
    """It compiles, is not the original, and has its annotations."""
    drawn = draw(Project(ROOT, "pytest_quant", ELSEWHERE), package, 8, 1)
    assert len(drawn) == 8
    for mutant in drawn:
        original = (ROOT / mutant.module).read_text("utf-8")
        assert ast.dump(ast.parse(mutant.code)) != ast.dump(ast.parse(original))
        assert _annotations(mutant.code) == _annotations(original)
        assert original.splitlines()[mutant.line - 1] in [line[1:] for line in mutant.diff.splitlines()]


def _annotations(code: str) -> list[str]:
    """Return the annotations of arguments and results in the order of the code."""
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)]
    return [
        ast.unparse(one)
        for node in nodes
        for one in (*(argument.annotation for argument in node.args.args), node.returns)
        if one is not None
    ]


def test_the_nearest_tests_come_first() -> None:
    """The file of the module, wherever the mirror says it is; its package; the packages that import this one."""
    found = stages(Project(ROOT, "pytest_quant", ELSEWHERE), "pytest_quant/record/record.py")
    assert found[:2] == [("tests/unit/record/test_codec.py",), ("tests/unit/record",)]
    assert "tests/unit/test_session.py" in found[2]
    assert "tests/unit/record" not in found[2]
