"""Small ONNX graphs that hypothesis draws: either our figures equal independent ones, or the message is ours."""
