"""ONNX files as files: whether they are whole, their inputs and outputs, their graphs. No runtime is needed."""

from pytest_quant.backends.onnx_files.normalize import (
    check_excluded,
    names_made_of,
    normalized,
    opset_of,
    write_normalized,
)
from pytest_quant.backends.onnx_files.quantizing import quantizing_nodes
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
    read_signature,
    read_table_rows,
    rename_captured,
    size_bytes,
    write_model,
)

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
    "quantizing_nodes",
    "read_graph",
    "read_signature",
    "read_table_rows",
    "rename_captured",
    "size_bytes",
    "write_model",
    "write_normalized",
]
