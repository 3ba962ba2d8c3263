"""What every backend must do, as a class of tests to inherit from.

Override the fixture ``backend``. A scheme that needs a model of its own (``qat``) is not tried here.
"""

from pytest_quant.testing.conformance.contract import ContractTests
from pytest_quant.testing.conformance.failures import FailureTests
from pytest_quant.testing.conformance.proof import ProofTests
from pytest_quant.testing.conformance.results import ResultTests


class BackendConformance(ResultTests, ContractTests, ProofTests, FailureTests):
    """All of them: results, the engine's contract, proof of what ran, errors."""


__all__ = ["BackendConformance"]
