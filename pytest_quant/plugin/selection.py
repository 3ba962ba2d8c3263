"""Whether a run takes every test of the suite, or somebody chose some of them."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

import pytest

_LEAVES_OUT = ("keyword", "markexpr", "lf", "stepwise", "deselect", "ignore", "ignore_glob")
_LEFT_OUT = pytest.StashKey[bool]()
_OF_WORKER = "quant_left_out"


def note_left_out(config: pytest.Config, collected: Sequence[pytest.Item], kept: Sequence[pytest.Item]) -> None:
    """Remember that tests which were collected will not run, whoever took them out; a worker tells its controller."""
    still_here = {id(item) for item in kept}
    if any(id(item) not in still_here for item in collected):
        config.stash[_LEFT_OUT] = True
        output = getattr(config, "workeroutput", None)
        if output is not None:
            output[_OF_WORKER] = True


def note_worker(config: pytest.Config, node: object) -> None:
    """Take over what xdist's worker `node` told; one that crashed told nothing."""
    if getattr(node, "workeroutput", {}).get(_OF_WORKER):
        config.stash[_LEFT_OUT] = True


def takes_all(config: pytest.Config) -> bool:
    """Tell whether no path or option leaves tests out, and no plugin took any: a shard is a part of the suite."""
    chosen = any(config.getoption(name, None) for name in _LEAVES_OUT)
    return not (_names_a_part(config) or chosen or config.stash.get(_LEFT_OUT, False))


def _names_a_part(config: pytest.Config) -> bool:
    """Tell whether the command line names paths that hold neither the root directory nor all of ``testpaths``."""
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        return False
    # An argument that names tests of a file, or a package, is no path that exists, and so covers nothing.
    named = [(config.invocation_params.dir / arg).resolve() for arg in config.args]
    suite = [
        Path(path)
        for pattern in config.getini("testpaths")
        # As pytest reads it: Path.glob takes no "." and no absolute path.
        for path in glob.iglob(str(config.rootpath / pattern), recursive=True)  # noqa: PTH207
    ]
    return not any(
        folders and all(any(folder.resolve().is_relative_to(one) for one in named) for folder in folders)
        for folders in ([config.rootpath], suite)
    )
