"""What every backend must do, as classes of tests to inherit from.

Override the fixture ``backend``. A scheme that needs a model of its own (``qat``) is not tried here.
"""

from pytest_quant.testing.conformance.contract import ContractTests
from pytest_quant.testing.conformance.failures import FailureTests, FileTests, ModuleTests
from pytest_quant.testing.conformance.results import ProofTests, ResultTests


class BackendConformance(ResultTests, ContractTests, ProofTests, FailureTests, FileTests):
    """For a backend that reads ONNX files: results, the engine's contract, proof of what ran, errors."""


class ModuleBackendConformance(ResultTests, ContractTests, ProofTests, FailureTests, ModuleTests):
    """The same for a backend that reads torch modules."""


__all__ = ["BackendConformance", "ModuleBackendConformance"]
