"""Hostile input for everything that strangers hand us; `tests/nightly/test_fuzz.py` draws it."""
