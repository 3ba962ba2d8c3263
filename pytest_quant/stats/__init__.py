"""Intervals, paired tests and percentiles: numbers in, numbers out."""
