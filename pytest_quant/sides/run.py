"""The marked tests of a commit, run by pytest with the commit's own files: conftest, marks, ini file and code.

Nothing is timed there and nothing is judged: accuracy is measured, and the engines are described for a `TimingProcess`.
The plugin is this one on both sides, because it is the instrument and not what is compared; engines come from the
user's cache, whose keys are their contents. What a run leaves for a comparison with another is a folder of files, on
which two processes agree, perhaps of two environments: everything but the timed engines is JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from pytest_quant.backends.child_process import run_child
from pytest_quant.environment.worktree import LOCAL_VARIABLES, Tree
from pytest_quant.errors import HistoryError
from pytest_quant.record import Record, Run, run_from_json

_RECORDS = "records.json"
_SELECTION = "selection.json"
IMPORTED = "imported.json"
"""File with the names of the modules that a run imported from the user's checkout."""

_PYTEST = "import sys; from pytest_quant.host import end_with_parent as w; w(); import pytest; sys.exit(pytest.main())"
"""``python -m pytest``, which ends with the run that started it, where that is killed."""


class Selection(msgspec.Struct, frozen=True):
    """What a run for a comparison is to run, written for it beforehand.

    Attributes
    ----------
    nodeids : of the tests.
    others : run the marked tests that are not among them too: one of them may be one of those under another name.
    elsewhere : the user's checkout, from which the run must import nothing.
    """

    nodeids: tuple[str, ...]
    others: bool
    elsewhere: str


@dataclass(frozen=True, slots=True)
class SideResult:
    """One side of a comparison: its records, and where its engines are described.

    Attributes
    ----------
    folder : with the files; see `launch_file`.
    run : ``None`` where pytest did not come to its end.
    trouble : why there are no records; empty when there are.
    python : the interpreter that it ran in.
    cwd, environment : of its processes; ``None`` for those of this process.
    notes : what the reader should know about it.
    """

    folder: Path
    run: Run | None
    records: tuple[Record, ...]
    python: str
    trouble: str = ""
    cwd: Path | None = None
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()


def launch_file(folder: Path, nodeid: str) -> Path:
    """Return the file in which the timed engines of a test are described, see `pytest_quant.measure.timing_process`."""
    return folder / f"{hashlib.sha256(nodeid.encode()).hexdigest()[:32]}.launch"


def selection_in(folder: Path) -> Selection | None:
    """Return what the run that leaves its results in a folder is to run; ``None`` for what the user asked for."""
    file = folder / _SELECTION
    return msgspec.json.decode(file.read_bytes(), type=Selection) if file.is_file() else None


def is_installed(file: Path) -> bool:
    """Whether a file or folder lies in the environment of this process."""
    prefixes = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}
    # A system's own Python may have the root of all files for its prefix.
    return any(file.resolve().is_relative_to(prefix) for prefix in prefixes if prefix != prefix.parent)


@dataclass(frozen=True, slots=True)
class Invocation:
    """How the user's own run finds its tests.

    Attributes
    ----------
    checkout : top folder of the checkout.
    rootdir : pytest's root directory, within it; ``None`` where pytest is to find it.
    cwd : where pytest was started.
    paths : files and folders that the user names; ``None`` for those that the ini file names.
    options : further options of pytest.
    cache : folder of the engines.
    """

    checkout: Path
    rootdir: Path | None
    cwd: Path
    paths: tuple[str, ...] | None
    options: tuple[str, ...]
    cache: Path

    def move_to_tree(self, tree: Path, path: Path) -> Path | None:
        """Return the place of a file or folder of the checkout in another tree; ``None`` for one outside."""
        try:
            return tree / path.resolve().relative_to(self.checkout.resolve())
        except ValueError:
            return None


def run_side(
    tree: Tree, invocation: Invocation, selection: Selection, folder: Path, python: str = sys.executable
) -> SideResult:
    """Run the tests of a tree to their end, and return what they left.

    Parameters
    ----------
    tree : the files of the commit.
    invocation : how the user's run finds its tests.
    selection : which of them are wanted.
    folder : gets what they leave; must not exist yet.
    python : the interpreter, which may be of another environment.
    """
    folder.mkdir()
    rootdir = None if invocation.rootdir is None else invocation.move_to_tree(tree.path, invocation.rootdir)
    cwd = invocation.move_to_tree(tree.path, invocation.cwd)
    environment = _environment(tree, invocation, python)
    place = cwd if cwd is not None and cwd.is_dir() else tree.path
    left = SideResult(folder, None, (), python, cwd=place, environment=environment, notes=tuple(tree.notes))
    if invocation.rootdir is not None and (rootdir is None or not rootdir.is_dir()):
        trouble = f"{tree.commit[:12]} does not have the folder of the tests, {invocation.rootdir.name}"
        return replace(left, trouble=trouble)
    paths = _paths(tree, invocation, selection, rootdir)
    if paths is not None and not paths:
        return left
    (folder / _SELECTION).write_bytes(msgspec.json.encode(selection))
    root = [] if rootdir is None else [f"--rootdir={rootdir}"]
    command = [*_command(python, folder, invocation), *root, *(["--", *paths] if paths else [])]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        with run_child(command, log, (), place, environment) as process:
            code = process.wait()
        log.seek(0)
        said = log.read()
    file = folder / _RECORDS
    if not file.is_file():
        return replace(left, trouble=f"pytest ended there with {code}: {_last(said)}")
    try:
        run, records = run_from_json(json.loads(file.read_text("utf-8")))
        imported = json.loads((folder / IMPORTED).read_text("utf-8"))
    except (HistoryError, OSError, ValueError) as error:
        return replace(left, trouble=f"its records cannot be read: {error}")
    if imported:
        names = ", ".join(imported[:3])
        note = f"both sides ran the same {names}: the base imported it from the user's checkout"
        left = replace(left, notes=(*left.notes, note))
    return replace(left, run=run, records=records)


def _paths(tree: Tree, invocation: Invocation, selection: Selection, rootdir: Path | None) -> list[str] | None:
    """Return the files and folders to collect, which are all there; ``None`` for the paths of the commit's ini file."""
    if not selection.others and rootdir is not None:
        named = dict.fromkeys(rootdir / nodeid.partition("::")[0] for nodeid in selection.nodeids)
        return [str(path) for path in named if path.exists()]
    if invocation.paths is None:
        return None
    split = (path.partition("::") for path in invocation.paths)
    places = [(invocation.move_to_tree(tree.path, invocation.cwd / file), gap + rest) for file, gap, rest in split]
    return [f"{path}{rest}" for path, rest in dict.fromkeys(places) if path is not None and path.exists()]


def _command(python: str, folder: Path, invocation: Invocation) -> Iterator[str]:
    # Without the current folder on Python's path, as the user's pytest has it.
    yield from (python, "-P", "-c", _PYTEST, "-q", "--no-header", "--tb=line", "--show-capture=no", "-W", "ignore")
    yield from ("-m", "", "-k", "", "--maxfail=0", "--continue-on-collection-errors")
    if _has_xdist(python):
        yield from ("-n", "0")
    yield from (f"--quant-leave={folder}", f"--quant-json={folder / _RECORDS}", f"--quant-cache={invocation.cache}")
    yield from ("--quant-no-history", "--no-quant-compare", "--quant-no-latency", "--quant-diagnose-time=0")
    yield from ("--no-quant-strict", "--no-quant-only-latency", *invocation.options)


def _has_xdist(python: str) -> bool:
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('xdist') is None)"
    done = subprocess.run(  # nosec B603 # noqa: S603 - the user's interpreter, and our own words
        [python, "-c", probe], check=False, stdin=subprocess.DEVNULL, capture_output=True
    )
    return done.returncode == 0


def _environment(tree: Tree, invocation: Invocation, python: str) -> dict[str, str]:
    """Return the environment of the processes of a side: what names the user's checkout names the tree in its place.

    Otherwise a project that is installed from its checkout would be imported from there on both sides.
    """
    variables = {
        name: value
        for name, value in os.environ.items()
        if name in ("PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")
        or not (name.startswith(("PYTEST_", "COV_CORE_")) or name in LOCAL_VARIABLES)
        # What is ours is called PYTEST_QUANT.
        or name.startswith("PYTEST_QUANT_")
    }
    return variables | {"PYTHONPATH": os.pathsep.join(_import_path(tree, invocation, python))}


def _import_path(tree: Tree, invocation: Invocation, python: str) -> Sequence[str]:
    folders: dict[str, None] = {}
    ours = [] if python != sys.executable else [Path(entry or invocation.cwd) for entry in sys.path]
    inherited = [Path(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    for entry in (*ours, *inherited):
        moved = invocation.move_to_tree(tree.path, entry)
        if moved is not None and not is_installed(entry):
            folders[str(moved)] = None
        elif entry in inherited:
            folders[str(entry)] = None
    return list(folders)


def _last(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("ERROR", "E ", "ImportError", "ModuleNotFoundError"))]
    return " / ".join((telling or lines)[-6:]) or "it wrote nothing"
