"""The user's data as batches: streamed, checked against the model, apart from its calibration samples."""

from pytest_quant.data.batch import Batch, Feeds
from pytest_quant.data.layout import Layout, find_layout, fixed_batch_size
from pytest_quant.data.opening import Data, open_data
from pytest_quant.data.source import inputs_of

__all__ = ["Batch", "Data", "Feeds", "Layout", "find_layout", "fixed_batch_size", "inputs_of", "open_data"]
