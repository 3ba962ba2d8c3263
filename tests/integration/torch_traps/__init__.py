"""What goes wrong silently with PyTorch and torchao."""
