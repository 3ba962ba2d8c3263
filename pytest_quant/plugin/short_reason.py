"""``pytest --quant-accept --reason TEXT``: the option of ``pytest-quant accept`` in a run of pytest.

The name is too common to be taken from other plugins: pytest ends at the start where two of them declare one option. So
it is never declared. With ``--quant-accept`` it is read as ``--quant-reason``, unless somebody else declares it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

NAME = "--reason"


@contextmanager
def read_short_reason(config: pytest.Config, parser: pytest.Parser, args: list[str]) -> Iterator[None]:
    """Rewrite `args` after the block, which loads the first conftest files, as long as none of those has the name.

    Parameters
    ----------
    config : what is known of the command line so far.
    parser : that all plugins declare their options to.
    args : the command line, with ``--quant-accept`` and what the settings add to it.
    """
    if _is_free(parser, args):
        # By these pytest looks for conftest files; the text of the reason is none of them.
        config.known_args_namespace.file_or_dir = parser.parse_known_args(_in_full(args)).file_or_dir
    yield
    if _is_free(parser, args):
        args[:] = _in_full(args)


def _is_free(parser: pytest.Parser, args: Sequence[str]) -> bool:
    """Whether the name is on the command line, and nobody declares it."""
    known, unknown = parser.parse_known_and_unknown_args(args)
    # argparse takes an option that it does not know for a file when it has a space.
    return any(one.partition("=")[0] == NAME for one in (*unknown, *known.file_or_dir))


def _in_full(args: Sequence[str]) -> list[str]:
    """Return the command line with the name that is always ours; what comes after ``--`` are no options."""
    words = [os.fspath(one) for one in args]
    end = words.index("--") if "--" in words else len(words)
    options = ("--quant-" + one.removeprefix("--") if one.partition("=")[0] == NAME else one for one in words[:end])
    return [*options, *words[end:]]
