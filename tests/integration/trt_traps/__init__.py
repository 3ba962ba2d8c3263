"""What TensorRT refuses, or takes and computes wrongly; with TensorRT-RTX as the real parser and builder."""
