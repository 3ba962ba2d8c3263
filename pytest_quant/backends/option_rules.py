"""Options of a mark against a backend's own table of rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pytest_quant.errors import UsageError, nearest


@dataclass(frozen=True, slots=True)
class Rule:
    """What an option may be, in words and as a test."""

    allowed: str
    holds: Callable[[object], bool]


def one_of(*values: object) -> Rule:
    """Allow some values, compared together with their type."""
    known = [(type(value), value) for value in values]
    return Rule(", ".join(map(repr, values)), lambda value: (type(value), value) in known)


def whole_number(at_least: int) -> Rule:
    """Allow an int from `at_least` on; a bool is none."""
    text = f"an int of at least {at_least}"
    return Rule(text, lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= at_least)


FLAG = one_of(True, False)


def checked(backend: str, options: Iterable[tuple[str, object]], rules: Mapping[str, Rule]) -> dict[str, object]:
    """Return `options` by name.

    Raises
    ------
    UsageError : an option is unknown, of another type or out of range.
    """
    found: dict[str, object] = {}
    for name, value in options:
        rule = rules.get(name)
        if rule is None:
            raise UsageError(
                f"backend '{backend}' has no option '{name}'", value=repr(value), allowed=nearest(name, rules)
            )
        if not rule.holds(value):
            message = f"option '{name}' of backend '{backend}' cannot be that"
            raise UsageError(message, value=repr(value), allowed=rule.allowed)
        found[name] = value
    return found
