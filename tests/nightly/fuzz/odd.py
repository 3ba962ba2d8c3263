"""What nobody means to write: texts, numbers, and damage to bytes and to JSON."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

CONTROLS = "\x00\x07\x08\x0b\x1b\x7f\x80\x9b"
"""Some that terminals act upon; a line break is looked at apart, for messages have several lines."""

TEXTS = (
    "",
    "\x1b[2J\x1b[31mred\x1b]0;title\x07",
    "::error file=a.py::planted",
    "a\n::set-output name=x::y",
    "nul\x00inside",
    "\u202egnp.exe",
    "\u2028\u2029\ufeff",
    "\ud800",
    "../../../outside",
    "--help",
    "=1+1",
    "%s%n{0}{x!r}",
    "$(id)`id`;'\"",
    "1e999",
    "x" * 5000,
    "\N{COMBINING ACUTE ACCENT}" * 300,
)

NUMBERS: tuple[Any, ...] = (0, -1, 1, 2, 0.5, 100, 2**63, 10**400, 5e-324, True, False)
"""Beside those that hypothesis draws, NaN and infinity among them."""

texts = st.one_of(st.sampled_from(TEXTS), st.text(max_size=12), st.text(alphabet=CONTROLS + "ab:/-.\n", max_size=8))

numbers = st.one_of(st.sampled_from(NUMBERS), st.integers(-(2**70), 2**70), st.floats())


_DEEP = 150
"""As deep as Python still copies whatever called it; what is nested deeper is drawn as bytes."""


def nested(depth: int, *, in_dicts: bool) -> Any:
    """Return `depth` lists or dicts inside each other."""
    value: Any = 1
    for _ in range(depth):
        value = {"a": value} if in_dicts else [value]
    return value


json_values = st.one_of(
    st.none(),
    numbers,
    texts,
    st.recursive(
        st.one_of(st.none(), st.integers(-3, 3), texts),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
        max_leaves=4,
    ),
    st.builds(nested, st.sampled_from((3, _DEEP)), in_dicts=st.booleans()),
)

endless = st.sampled_from((b"[" * 100_000, b'{"a":' * 100_000, b"a = " + b"[" * 100_000, b"[a." * 50_000))
"""Nested without end, which no value of ours is."""


@st.composite
def damaged(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """Draw one of `seeds` with a few bytes turned, taken out, put in or doubled, or with its end cut off."""
    content = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        how = draw(st.sampled_from(("turn", "set", "cut", "take out", "put in", "double")))
        if how == "turn" and at < len(content):
            content[at] ^= 1 << draw(st.integers(0, 7))
        elif how == "set" and at < len(content):
            content[at] = draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)))
        elif how == "cut":
            del content[at:]
        elif how == "take out":
            del content[at : at + draw(st.integers(1, 64))]
        elif how == "put in":
            content[at:at] = draw(st.binary(min_size=1, max_size=16))
        elif how == "double":
            content[at:at] = content[at : at + draw(st.integers(1, 64))]
    return bytes(content)


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value in a JSON document, the whole of it apart."""
    children = document.items() if isinstance(document, dict) else enumerate(document)
    for key, child in children:
        yield (*path, key)
        if isinstance(child, (dict, list)):
            yield from places(child, (*path, key))


@st.composite
def changed_json(draw: st.DrawFn, seeds: Sequence[Any]) -> Any:
    """Draw one of `seeds` with a few values replaced, taken out, renamed, or put where another stood."""
    document = copy.deepcopy(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 3))):
        paths = list(places(document))
        if not paths:
            break
        # Half of the time near the top: of most documents nearly all values lie deep inside.
        path = draw(st.one_of(st.sampled_from([each for each in paths if len(each) <= 2]), st.sampled_from(paths)))
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        how = draw(st.sampled_from(("replace", "replace", "replace", "take out", "rename", "swap")))
        if how == "replace":
            holder[path[-1]] = draw(json_values)
        elif how == "take out":
            del holder[path[-1]]
        elif how == "rename" and isinstance(holder, dict):
            holder[draw(texts)] = holder.pop(path[-1])
        else:
            other = document
            for key in draw(st.sampled_from(paths)):
                other = other[key]
            holder[path[-1]] = copy.deepcopy(other)
    return document
