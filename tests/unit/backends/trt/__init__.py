"""TensorRT's backends where they need no TensorRT."""
