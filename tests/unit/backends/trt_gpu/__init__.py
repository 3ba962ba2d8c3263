"""Native TensorRT without a GPU: what needs a device runs on the fake of `tests.fake_tensorrt`."""
