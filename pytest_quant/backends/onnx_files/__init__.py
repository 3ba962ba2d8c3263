"""ONNX files as files: whether they are whole, their inputs and outputs, their graphs. No runtime is needed."""

from pytest_quant.backends.onnx_files.exclude import check_excluded, names_made_of
from pytest_quant.backends.onnx_files.normalize import normalized, opset_of, write_normalized
from pytest_quant.backends.onnx_files.read import (
    all_graphs,
    all_nodes,
    bodies_of,
    captured_names,
    defined_names,
    external_files,
    file_digests,
    fresh_name,
    model_file,
    needs_external_data,
    read_graph,
    rename_captured,
    size_bytes,
    write_model,
)
from pytest_quant.backends.onnx_files.signature import read_signature, read_table_rows

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
    "read_graph",
    "read_signature",
    "read_table_rows",
    "rename_captured",
    "size_bytes",
    "write_model",
    "write_normalized",
]
