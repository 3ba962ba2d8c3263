"""ONNX files as files: are they whole, what goes in and out, what are they made of. No runtime is needed."""

from pytest_quant.backends.onnx_files.digest import file_digests, size_bytes
from pytest_quant.backends.onnx_files.exclude import check_excluded, names_made_of
from pytest_quant.backends.onnx_files.external import external_files
from pytest_quant.backends.onnx_files.nested import (
    all_graphs,
    all_nodes,
    bodies_of,
    captured_names,
    defined_names,
    fresh_name,
    rename_captured,
)
from pytest_quant.backends.onnx_files.normalize import normalized, opset_of, write_normalized
from pytest_quant.backends.onnx_files.read import model_file, read_graph
from pytest_quant.backends.onnx_files.signature import read_signature
from pytest_quant.backends.onnx_files.tables import read_table_rows
from pytest_quant.backends.onnx_files.write import needs_external_data, write_model

__all__ = [
    "all_graphs",
    "all_nodes",
    "bodies_of",
    "captured_names",
    "check_excluded",
    "defined_names",
    "external_files",
    "file_digests",
    "fresh_name",
    "model_file",
    "names_made_of",
    "needs_external_data",
    "normalized",
    "opset_of",
    "read_axis_names",
    "read_graph",
    "read_signature",
    "read_table_rows",
    "rename_captured",
    "size_bytes",
    "write_model",
    "write_normalized",
]
