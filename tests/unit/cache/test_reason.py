"""Rebuilds say which ingredient differs."""

from __future__ import annotations

from pytest_quant.cache.reason import why_built

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
