"""A second provider of ONNX Runtime, and what may go wrong with two."""
