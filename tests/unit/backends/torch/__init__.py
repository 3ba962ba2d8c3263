"""PyTorch's backend where it compiles nothing."""
