"""The doctor's parts."""
