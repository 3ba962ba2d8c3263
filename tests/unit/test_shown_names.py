"""What messages and failed assertions call data and measurements."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_quant.errors import UsageError
from pytest_quant.spec import Dataset
from tests.unit.record.examples import ACCURACY, COVERAGE


@pytest.mark.parametrize("value", [np.zeros((2, 3)), (np.zeros((2, 3)), [0, 1]), [(np.zeros(3), 0)]])
def test_data_is_called_as_the_fixture_that_gave_it(value: object) -> None:
    """A mark's ``data="street_signs"`` is looked for under that name, not under the default one."""
    assert Dataset.from_fixture(value, "street_signs").name == "street_signs"
    assert Dataset.from_fixture(Dataset.from_fixture(value), "street_signs").name == "street_signs"
    assert Dataset.from_fixture(value).name == "quant_data"


def test_what_is_no_data_names_its_fixture() -> None:
    """The one to repair."""
    with pytest.raises(UsageError, match="street_signs must give a Dataset"):
        Dataset.from_fixture(3, "street_signs")


def test_results_are_short_where_pytest_prints_them() -> None:
    """Rows of operators, outputs and samples do not bury the figures."""
    assert len(repr(COVERAGE)) < 200
    assert "OutputError" not in repr(ACCURACY)
    assert "correct" not in repr(ACCURACY)
