"""What backends for an NVIDIA GPU share: its memory, streams and events, and whether TensorRT loads."""
