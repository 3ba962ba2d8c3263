"""Identification of the machine, its libraries and the code under test."""
