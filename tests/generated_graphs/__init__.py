"""Small ONNX graphs that hypothesis draws: either our figures equal independent ones, or the message is ours.

``python -m tests.generated_graphs --examples 500`` draws many and prints what it found.
"""
