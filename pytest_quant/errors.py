"""Every error this package raises on purpose, and its one warning.

::

    QuantError
    ├── UsageError          the mark, an option or a fixture asks for something that cannot be
    ├── BackendUnavailable  the runtime is not installed, or its device is not in this machine
    ├── BuildError          the runtime is here, but calibrating, quantizing or opening failed
    ├── ModelError          the model file is missing, broken, or does not fit the data
    ├── DataError           the data is empty, broken, unstable, or does not fit the model
    ├── CacheError          an engine could not be kept or read back
    ├── LaunchError         a fresh process could not time the engines of a check
    ├── ForgeError          GitHub or GitLab did not take a comment
    └── HistoryError        records could not be written or read back

Each message says what was wrong, the value, what was allowed and the next step.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from pytest_quant.printable import clean_lines


class QuantError(Exception):
    """What was wrong, the value that was found, what is allowed, and the next step.

    Texts of models, users and libraries go into it as they are: its attributes hold them as they may be printed,
    without escapes for a terminal, commands to a CI service, or secrets in addresses.

    Parameters
    ----------
    what : one sentence that names the thing and what is wrong with it.
    value : the offending value as text; ``None`` when there is none to show.
    allowed : what would have been right.
    fix : the next step for the reader, a command where there is one.
    log : the file that holds all that a library said, where the message holds a part of it.
    """

    def __init__(
        self,
        what: str,
        *,
        value: str | None = None,
        allowed: str | None = None,
        fix: str | None = None,
        log: str | None = None,
    ) -> None:
        super().__init__(clean_lines(what))
        self.what = clean_lines(what)
        self.value = _printable(value)
        self.allowed = _printable(allowed)
        self.fix = _printable(fix)
        self.log = _printable(log)

    def __str__(self) -> str:
        """One line for each part that is known."""
        parts = (("got", self.value), ("allowed", self.allowed), ("next", self.fix), ("full text", self.log))
        return "\n".join([self.what, *(f"  {label}: {text}" for label, text in parts if text is not None)])


def _printable(text: str | None) -> str | None:
    return None if text is None else clean_lines(text)


class UsageError(QuantError):
    """The mark, an option or a fixture asks for something that cannot be."""


class BackendUnavailable(QuantError):  # noqa: N818 - a fixed public name; it is an outcome more than an error
    """The runtime is not installed, or its device is not in this machine."""


class BuildError(QuantError):
    """The runtime is here, but calibrating, quantizing or opening the engine failed."""


class ModelError(QuantError):
    """The model is missing, broken, or does not fit the data."""


class ModelFileError(ModelError):
    """The model's own files are missing or broken, whatever samples it is given."""


class DataError(QuantError):
    """The data is empty, broken, iterates differently each time, or does not fit the model."""


class CacheError(QuantError):
    """An engine could not be kept or read back."""


class LaunchError(QuantError):
    """A fresh process could not open or time the engines of a check; this process can."""


class ForgeError(QuantError):
    """GitHub or GitLab did not take a comment of a pull request."""


class HistoryError(QuantError):
    """Records could not be written or read back."""


def nearest(name: str, choices: Iterable[str], others: Mapping[str, str] | None = None) -> str:
    """Return ``"did you mean 'x'? known: a, b, c"`` for an unknown `name`; case does not count.

    `others` are names that people know some of the choices by, in small letters.
    """
    names, small = sorted(choices), name.lower()
    by_small = {choice.lower(): choice for choice in names}
    close = difflib.get_close_matches(small, by_small, n=3, cutoff=0.5)
    # Two letters in the wrong order are the likeliest slip, and difflib does not tell it from another letter.
    close.sort(key=lambda choice: sorted(choice) != sorted(small))
    known = (others or {}).get(small)
    close = [known] if known in names else [by_small[choice] for choice in close]
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"{hint}known: {', '.join(names)}"


class InconclusiveWarning(UserWarning):
    """A limit could not be judged: too much noise, too few samples, or not measurable here."""
