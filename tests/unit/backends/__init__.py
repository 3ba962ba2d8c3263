"""Backends, without a runtime."""
