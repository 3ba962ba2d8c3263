"""Runs on their way between histories, and results of other benchmark tools."""
