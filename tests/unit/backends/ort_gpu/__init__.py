"""ONNX Runtime's GPU providers where they need no GPU."""
