"""Keys follow contents and nothing else."""

from __future__ import annotations

import hashlib
import random

from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_quant.cache.manifest import key_of

INGREDIENTS = st.dictionaries(st.text(), st.text(), min_size=1, max_size=6)


@given(ingredients=INGREDIENTS, value=st.text(), data=st.data())
def test_any_changed_ingredient_changes_the_key(ingredients: dict[str, str], value: str, data: st.DataObject) -> None:
    """One other value under one name is another key."""
    name = data.draw(st.sampled_from(sorted(ingredients)))
    assume(ingredients[name] != value)
    assert key_of("engine", ingredients) != key_of("engine", {**ingredients, name: value})


@given(ingredients=INGREDIENTS, data=st.data())
def test_a_missing_or_renamed_ingredient_changes_the_key(ingredients: dict[str, str], data: st.DataObject) -> None:
    """A name counts as much as its value."""
    name = data.draw(st.sampled_from(sorted(ingredients)))
    without = {key: value for key, value in ingredients.items() if key != name}
    renamed = {**without, name + "x": ingredients[name]}
    assert key_of("engine", ingredients) != key_of("engine", without)
    if name + "x" not in ingredients:
        assert key_of("engine", ingredients) != key_of("engine", renamed)


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
