"""ONNX Runtime's OpenVINO plugin where no kernel runs."""
