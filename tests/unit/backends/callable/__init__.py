"""Functions as engines."""
