"""Keys follow contents and nothing else, and a rebuild says which ingredient differs."""

from __future__ import annotations

import hashlib
import random

from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.cache.entry import key_of, why_built

INGREDIENTS = st.dictionaries(st.text(), st.text(), min_size=1, max_size=6)


@given(ingredients=INGREDIENTS, seed=st.integers(0, 1000))
def test_the_order_of_ingredients_does_not_count(ingredients: dict[str, str], seed: int) -> None:
    """Equal ingredients in any order have one key."""
    items = list(ingredients.items())
    random.Random(seed).shuffle(items)  # noqa: S311 - an order, not a secret
    assert key_of("engine", dict(items)) == key_of("engine", ingredients)


@given(left=st.dictionaries(st.text(), st.text()), right=st.dictionaries(st.text(), st.text()))
def test_different_ingredients_have_different_keys(left: dict[str, str], right: dict[str, str]) -> None:
    """No separator inside a name or a value makes two sets of ingredients look alike."""
    assert (key_of("engine", left) == key_of("engine", right)) == (left == right)


def test_the_kind_belongs_to_the_key() -> None:
    """An engine and a calibration from the same ingredients are two entries."""
    assert key_of("engine", {"a": "b"}) != key_of("calibration", {"a": "b"})


def test_a_key_is_sha256_of_canonical_json() -> None:
    """Any program can compute a key."""
    assert key_of("engine", {"b": "2", "a": "1"}) == hashlib.sha256(b'["engine",{"a":"1","b":"2"}]').hexdigest()


OLD, NEW = "1a2b3c4d" + "0" * 56, "5e6f7a8b" + "0" * 56


def test_the_first_build_says_so() -> None:
    """Nothing came before."""
    assert why_built("ort-int8-static of digits", None, {"model": NEW}) == "first build of ort-int8-static of digits"


def test_a_digest_is_shortened_and_named() -> None:
    """Two digests of sha256 show their beginnings."""
    assert why_built("s", {"model": OLD}, {"model": NEW}) == "model changed (sha256 1a2b3c4d.. -> 5e6f7a8b..)"


def test_a_digest_may_carry_the_name_of_its_hash() -> None:
    """``sha256:`` in front is not shown twice."""
    assert why_built("s", {"m": f"sha256:{OLD}"}, {"m": f"sha256:{NEW}"}) == (
        "m changed (sha256 1a2b3c4d.. -> 5e6f7a8b..)"
    )


def test_a_value_is_shown_whole() -> None:
    """An option shows both values."""
    reason = why_built("s", {"option per_channel": "True"}, {"option per_channel": "False"})
    assert reason == "option per_channel changed (True -> False)"


def test_every_change_is_named_and_nothing_else() -> None:
    """Changed, added and removed ingredients by name; equal ones are left out."""
    old = {"a": "1", "b": "2", "same": "x"}
    assert why_built("s", old, {"a": "3", "c": "4", "same": "x"}) == ("a changed (1 -> 3); b removed (2); c added (4)")


def test_a_long_value_is_cut() -> None:
    """A list of node names does not fill the screen."""
    assert len(why_built("s", {"exclude": "n" * 1000}, {"exclude": ""})) < 120
