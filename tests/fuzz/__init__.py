"""Hostile input for everything that strangers hand us; nothing but our own errors may come out.

``python -m tests.fuzz`` looks for as long as it is told, `tests/nightly/test_fuzz.py` at a fixed number of inputs.
"""
