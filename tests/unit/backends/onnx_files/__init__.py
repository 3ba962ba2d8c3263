"""Tests of `pytest_quant.backends.onnx_files`."""
