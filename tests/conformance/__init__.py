"""The same checks on every backend."""
