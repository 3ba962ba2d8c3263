"""Native TensorRT 10 and 11: found, calibrated, run and inspected on a GPU. Importing this loads no runtime."""
