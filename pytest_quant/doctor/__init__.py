"""The health of a machine: which backends can run here, what is missing, and the command that fixes it."""

from pytest_quant.doctor.examine import examine
from pytest_quant.doctor.probe import BackendState, Examination, Library, Problem

__all__ = ["BackendState", "Examination", "Library", "Problem", "examine"]
