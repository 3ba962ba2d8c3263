"""ONNX files as files: are they whole, what goes in and out, what are they made of. No runtime is needed."""

from pytest_quant.backends.onnx_files.digest import file_digests, size_bytes
from pytest_quant.backends.onnx_files.external import external_files
from pytest_quant.backends.onnx_files.input_values import read_axis_names, read_table_rows
from pytest_quant.backends.onnx_files.read import model_file, read_graph
from pytest_quant.backends.onnx_files.signature import read_signature

__all__ = [
    "external_files",
    "file_digests",
    "model_file",
    "read_axis_names",
    "read_graph",
    "read_signature",
    "read_table_rows",
    "size_bytes",
]
