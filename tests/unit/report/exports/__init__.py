"""Tests of what other tools read."""
