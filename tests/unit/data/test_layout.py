"""Where samples lie in the inputs of a model, and how a batch is arranged for it."""

from __future__ import annotations

import numpy as np

from pytest_quant.data import Layout, find_layout
from pytest_quant.spec import Signature, TensorInfo


def test_an_input_without_an_axis_of_samples_keeps_its_shape() -> None:
    """A scalar stays one beside an input whose samples move to axis 1."""
    layout = Layout({"x": 1, "rate": None})
    arranged = layout.arranged({"x": np.zeros((3, 5, 2)), "rate": np.array(16000.0)})
    assert {name: array.shape for name, array in arranged.items()} == {"x": (5, 3, 2), "rate": ()}


def test_an_axis_that_the_user_names_tells_the_size_that_others_lead_with() -> None:
    """Of (7, 1, 8) with its samples on axis 1 and (1, 7, 4), the second holds one sample too."""
    inputs = (TensorInfo("x", "float32", (7, 1, 8)), TensorInfo("other", "float32", (1, 7, 4)))
    layout = find_layout(Signature(inputs, ()), {"x": 1}, {"x": 3, "other": 3}, where="data")
    assert layout.axes == {"x": 1, "other": 0}
    assert layout.fixed_batch_size == 1


def test_a_free_axis_of_steps_frees_no_batch_that_the_user_tells_to_be_fixed() -> None:
    """Of (steps, 4, 8) with its samples on axis 1 and (4, steps, 8), both hold four samples."""
    inputs = (
        TensorInfo("x", "float32", (4, None, 8), ("", "steps", "")),
        TensorInfo("other", "float32", (None, 4, 8), ("steps", "", "")),
    )
    layout = find_layout(Signature(inputs, ()), {"other": 1}, {"x": 3, "other": 3}, where="data")
    assert layout.axes == {"x": 0, "other": 1}
    assert layout.fixed_batch_size == 4
