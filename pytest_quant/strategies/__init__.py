"""hypothesis strategies for the inputs of a model, and properties that hold for an engine on all of them.

Needs the extra ``hypothesis``. Whole tests in one call, or as hypothesis tests of your own::

    from hypothesis import given
    from pytest_quant import strategies as qst

    @pytest.mark.quant(max_drop=1.0)
    def test_properties(quant_engine, quant_reference, quant_data):
        qst.check(quant_engine, quant_reference, quant_data)

    @pytest.mark.quant(max_drop=1.0)
    @qst.settings
    @given(feeds=qst.inputs("model.onnx", scale=4))
    def test_no_nan(quant_engine, quant_reference, feeds):
        qst.finite(quant_engine, quant_reference, feeds)
"""

try:
    import hypothesis as _hypothesis  # noqa: F401 - only to say what is missing
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "pytest_quant.strategies needs hypothesis; run: pip install 'pytest-quant[hypothesis]'", name="hypothesis"
    ) from error

from pytest_quant.strategies.inputs import inputs as inputs
from pytest_quant.strategies.properties import Property as Property
from pytest_quant.strategies.properties import batch_invariant as batch_invariant
from pytest_quant.strategies.properties import bounded_error as bounded_error
from pytest_quant.strategies.properties import check as check
from pytest_quant.strategies.properties import deterministic as deterministic
from pytest_quant.strategies.properties import finite as finite
from pytest_quant.strategies.properties import settings as settings
