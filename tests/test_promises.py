"""What we print or document as a way out exists: each option and command that a text names.

It is looked up where it is declared: in the help of pytest, pip and git, and in our commands.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import click

from tests.support.commands import all_commands, top_commands
from tests.support.documents import all_texts
from tests.support.example import ROOT

PROSE = ("wrote",)
"""Words that follow the name of the project in a sentence, and are no command."""

HELPS = {
    "pytest": (sys.executable, "-m", "pytest", "--help"),
    "pip": (sys.executable, "-m", "pip", "install", "--help"),
    "venv": (sys.executable, "-m", "venv", "--help"),
    "tests.gpu": (sys.executable, "-m", "tests.gpu", "--help"),
    "git config": ("git", "config", "-h"),
    "git fetch": ("git", "fetch", "-h"),
    "git ls-remote": ("git", "ls-remote", "-h"),
    "git status": ("git", "status", "-h"),
}
"""Who reads an option, by the words before it, and how it is asked for those that it takes."""

TOLD = {
    "uv sync": {"--locked", "--all-groups"},
    "poetry install": {"--no-interaction"},
    "lm_eval": {"--model", "--tasks", "--seed", "--limit"},
    "inspect eval": {"--log-dir"},
    "llama-perplexity": {"--kl-divergence"},
}
"""Options of programs that are not here to be asked: those of their documentation that texts of ours name."""

_OPTION = re.compile(r"(?<![\w<=/.-])(?>--[a-z][a-z0-9]*+(?:-[a-z0-9]+)*+)(?![-*\w])")
_SPEAKER = re.compile(
    r"\bpytest-quant (?P<command>[a-z]+)(?: (?P<below>[a-z]+))?|-m (?P<module>venv|pip|pytest|tests\.gpu)\b|"
    r"\b(?P<name>pytest|pip|git config|git fetch|git ls-remote|git status|uv sync|poetry install|lm_eval|"
    r"inspect eval|llama-perplexity)(?= )"
)
_SENTENCE_ENDS = re.compile(r"[`;|]|&&|[,.:] |\(|  ")
_COMMAND = re.compile(r"(?<![\w/.-])pytest-quant ([a-z][a-z-]*)")


@cache
def options_of(who: str) -> frozenset[str]:
    """Return the long options that a program tells in its help, descriptions left out."""
    if who in TOLD:
        return frozenset(TOLD[who])
    helped = subprocess.run(HELPS[who], cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line.strip() for line in (helped.stdout + helped.stderr).splitlines() if line.strip().startswith("-")]
    heads = [re.split(r"\s{2,}", line)[0].replace("[no-]", "") for line in lines]
    result = frozenset(option for head in heads for option in re.findall(r"--[a-z][\w-]+", head))
    assert result, helped.stdout + helped.stderr
    return result


def options_of_command(command: click.Command) -> frozenset[str]:
    """Return the long options of one of our commands and of those below it."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    own = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return frozenset(own | {"--help"}).union(*map(options_of_command, below))


def unknown_options(words: str) -> Iterator[str]:
    """Yield each option that the command before it does not take; without one, neither ours, pytest's nor pip's do.

    An option that is a whole literal is what code declares or hands to a program, and no text.
    """
    if _OPTION.fullmatch(words.partition("=")[0]):
        return
    for line in words.splitlines():
        for option in _OPTION.finditer(line):
            if option[0] not in _taken(line[: option.start()]):
                yield option[0]


def _taken(before: str) -> frozenset[str]:
    speakers = list(_SPEAKER.finditer(before))
    if speakers and not _SENTENCE_ENDS.search(before, speakers[-1].end()):
        speaker = speakers[-1]
        # What follows two dashes is for pytest.
        if " -- " in before[speaker.end() :]:
            return options_of("pytest")
        command = all_commands().get(f"{speaker['command']} {speaker['below']}")
        command = command or top_commands().get(speaker["command"])
        if command is not None:
            return options_of_command(command)
        if speaker["command"] is None:
            return options_of(speaker["module"] or speaker["name"])
    return (options_of("pytest") | options_of("pip")).union(*map(options_of_command, top_commands().values()))


def test_every_option_exists() -> None:
    """The program that the text tells to call takes it; where it tells none, one of pytest, pip and ours does."""
    wrong = [f"{text.place}: {option}" for text in all_texts() for option in unknown_options(text.words)]
    assert not wrong, "\n".join(wrong)


def test_every_command_exists() -> None:
    """What follows the name of the project is one of its commands, or a word of a sentence that is listed here."""
    said = [(text.place, name) for text in all_texts() for name in _COMMAND.findall(text.words)]
    assert [f"{place}: {name}" for place, name in said if name not in top_commands() and name not in PROSE] == []
    assert set(PROSE) <= {name for _, name in said}
