"""Random mutants of the packages that decide, and whether the fast tests see them: ``python -m tests.mutants``.

A mutant is the project with one small fault: a comparison turned, an argument gone, a statement left out. The faults
are mutmut's, and three of our own. Each is tried in a copy of the project, on the unit tests that mirror its module,
then on those of its package, then on those of all packages that import this one, until a test fails: it is dead. What
survives is printed with its place, and the exit status is 1 when too few die. Some survivors mean the same as the
original; look before you write a test.
"""

from __future__ import annotations

import argparse
import difflib
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import libcst as cst
from mutmut.mutation.mutators import mutation_operators

ROOT, PACKAGE = Path(__file__).parents[1], "pytest_quant"
PACKAGES = ("verdict", "measure", "metrics", "stats", "history/compare", "record")
WORKERS = 2
_MEMORY_BYTES = 16 * 2**30
"""A loop that a mutant never leaves may not take the machine's memory with it."""

_SPARE_S = 30.0
"""How much longer than four times what they need the tests may take before a mutant is taken for one that hangs."""

_NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: `code` is the text of `module` with it.

    Attributes
    ----------
    module : the path from the project's root.
    line : where the first changed line is, from 1.
    """

    module: str
    line: int
    code: str
    diff: str


def _negated(node: cst.If | cst.While | cst.CompIf) -> Iterator[cst.CSTNode]:
    """Turn a condition round; mutmut turns those that have an operator."""
    test = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    if not (isinstance(node.test, cst.Name) and node.test.value == "TYPE_CHECKING"):
        yield node.with_changes(test=cst.UnaryOperation(cst.Not(), test))


def _left_out(node: cst.SimpleStatementLine) -> Iterator[cst.CSTNode]:
    """Leave out a call made for its effect, an exception or a change."""
    for statement in node.body:
        value = statement.value if isinstance(statement, cst.Expr) else statement
        if isinstance(value, cst.Call | cst.Raise | cst.AugAssign):
            yield node.with_changes(body=[cst.Pass()])


def _without_result(node: cst.Return) -> Iterator[cst.CSTNode]:
    """Return nothing."""
    if node.value is not None and not (isinstance(node.value, cst.Name) and node.value.value == "None"):
        yield node.with_changes(value=None)


_OPERATORS: tuple[tuple[Any, Callable[[Any], Iterable[cst.CSTNode]]], ...] = (
    *mutation_operators,
    ((cst.If, cst.While, cst.CompIf), _negated),
    (cst.SimpleStatementLine, _left_out),
    (cst.Return, _without_result),
)


def _nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield `node` and what is in it, without annotations, decorators and the names for ``import *``."""
    if isinstance(node, cst.Annotation | cst.Decorator):
        return
    if isinstance(node, cst.Assign) and isinstance(to := node.targets[0].target, cst.Name) and to.value == "__all__":
        return
    yield node
    for child in node.children:
        yield from _nodes(child)


def _faults(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return what may stand in the place of `node`."""
    return [other for kinds, operator in _OPERATORS if isinstance(node, kinds) for other in operator(node)]


def draw(package: str, count: int, seed: int) -> list[Mutant]:
    """Return `count` mutants of a package, or one for each place that has any if these are fewer.

    Places are drawn first, each with the same chance, and then one of the faults that fit: else calls with many
    arguments, which have two faults for each, would be most of what is drawn.

    Parameters
    ----------
    package : its folder in the package, as in ``history/compare``.
    """
    folder = ROOT / PACKAGE / package
    modules = [(path, cst.parse_module(path.read_text("utf-8"))) for path in sorted(folder.rglob("*.py"))]
    places = [(path, module, node) for path, module in modules for node in _nodes(module)]
    chance = random.Random(f"{seed} {package}")  # noqa: S311 - keeps no secret
    chance.shuffle(places)
    mutants = (_mutant(path, module, node, chance) for path, module, node in places)
    return [each for each, _ in zip((mutant for mutant in mutants if mutant), range(count), strict=False)]


def _mutant(path: Path, module: cst.Module, node: cst.CSTNode, chance: random.Random) -> Mutant | None:
    """Return the module with one fault in the place of `node`; None where none fits, or what would be no Python."""
    faults = _faults(node)
    if not faults:
        return None
    code = cst.ensure_type(module.deep_replace(node, chance.choice(faults)), cst.Module).code
    try:
        compile(code, path, "exec")
    except SyntaxError:
        return None
    before, after = module.code.splitlines(), code.splitlines()
    line = next(n for n, (old, new) in enumerate(zip(before, after, strict=False), 1) if old != new)
    # The first two lines name the files.
    diff = [text for text in list(difflib.unified_diff(before, after, lineterm="", n=0))[2:] if text[:3] != "@@ "]
    return Mutant(path.relative_to(ROOT).as_posix(), line, code, "\n".join(diff))


def stages(module: str) -> list[tuple[str, ...]]:
    """Return the tests that are to see a fault in `module`, as paths from the root, the nearest first.

    These are the file that mirrors it, those of its package, and those of the packages that import this one.
    """
    place = Path(module).relative_to(PACKAGE).with_suffix("")
    unit = Path("tests", "unit")
    mirrored = [unit / place.parent / f"test_{place.name}.py"]
    own = place.parent
    imported = re.compile(rf"^ *(?:from|import) {re.escape('.'.join((PACKAGE, *own.parts)))}\b", re.MULTILINE)
    importers = sorted(
        path.relative_to(ROOT / PACKAGE)
        for path in (ROOT / PACKAGE).rglob("*.py")
        if imported.search(path.read_text("utf-8"))
    )
    beside = [
        unit / importer.parent if importer.parts[1:] else unit / f"test_{importer.stem}.py"
        for importer in importers
        if not importer.is_relative_to(own)
    ]
    of_tests = [[path for path in paths if (ROOT / path).exists()] for paths in (mirrored, [unit / own], beside)]
    return [tuple(dict.fromkeys(path.as_posix() for path in paths)) for paths in of_tests if paths]


class Workplace:
    """A copy of the project in which mutants are tried, one after the other.

    Parameters
    ----------
    folder : where to put the copy.
    seconds : how long tests take without a mutant; what is found is added, for other workplaces too.
    """

    def __init__(self, folder: Path, seconds: dict[tuple[str, ...], float]) -> None:
        self._root = shutil.copytree(ROOT, folder / "project", ignore=_NOT_COPIED)
        self._seconds = seconds
        self._written = 0

    def survives(self, mutant: Mutant) -> bool:
        """Try one mutant. Raises `RuntimeError` when the tests fail without it."""
        for tests in stages(mutant.module):
            if tests not in self._seconds:
                began = time.monotonic()
                if not self._passes(tests, None):
                    raise RuntimeError(f"without a mutant these fail: {' '.join(tests)}")
                self._seconds[tests] = time.monotonic() - began
            original = (self._root / mutant.module).read_text("utf-8")
            self._write(mutant.module, mutant.code)
            try:
                if not self._passes(tests, _SPARE_S + 4.0 * self._seconds[tests]):
                    return False
            finally:
                self._write(mutant.module, original)
        return True

    def _write(self, module: str, code: str) -> None:
        """Write a module with a time of change that it never had, so that nothing compiled is taken for it."""
        path = self._root / module
        path.write_text(code, "utf-8")
        self._written += 1
        os.utime(path, (self._written, self._written))

    def _passes(self, tests: tuple[str, ...], limit_s: float | None) -> bool:
        """Run tests until the first fails; those that take longer than `limit_s` fail."""
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests],
            cwd=self._root,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join((str(self._root), *filter(None, [os.getenv("PYTHONPATH")]))),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        resource.prlimit(process.pid, resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        try:
            return process.wait(limit_s) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return False


def survivors(mutants: Sequence[Mutant]) -> Iterator[Mutant]:
    """Yield those of `mutants` that no test sees. Raises `RuntimeError` when tests fail without a mutant."""
    with tempfile.TemporaryDirectory(prefix="pytest-quant-mutants-", ignore_cleanup_errors=True) as folder:
        seconds: dict[tuple[str, ...], float] = {}
        free = [Workplace(Path(folder, str(number)), seconds) for number in range(WORKERS)]

        def survives(mutant: Mutant) -> bool:
            workplace = free.pop()
            try:
                return workplace.survives(mutant)
            finally:
                free.append(workplace)

        with ThreadPoolExecutor(WORKERS) as pool:
            for mutant, survived in zip(mutants, pool.map(survives, mutants), strict=True):
                if survived:
                    yield mutant


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw mutants, try them and print those that survive; return 1 when too few of all die, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", default=PACKAGES, help=f"of {', '.join(PACKAGES)}")
    parser.add_argument("--count", type=int, default=25, help="mutants of each package (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="default: a new one")
    parser.add_argument("--least", type=float, default=90.0, help="percent that must die (default: %(default)s)")
    options = parser.parse_args(arguments)
    drawn = {package: draw(package, options.count, options.seed) for package in options.packages}
    total, dead = sum(map(len, drawn.values())), 0
    for package, mutants in drawn.items():
        alive = 0
        for mutant in survivors(mutants):
            alive += 1
            _tell(f"{mutant.module}:{mutant.line}\n{mutant.diff}\n")
        dead += len(mutants) - alive
        _tell(f"{package}: {len(mutants) - alive} of {len(mutants)} mutants die (seed {options.seed})\n")
    share = 100.0 * dead / total
    _tell(f"{share:.1f} % of {total} die; {options.least:g} % must")
    return int(share < options.least)


def _tell(text: str) -> None:
    """Print at once, for what follows takes minutes."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
