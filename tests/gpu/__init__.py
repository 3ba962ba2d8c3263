"""Tests that need an NVIDIA GPU; see README.md for what has run on one."""
