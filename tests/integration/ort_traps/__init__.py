"""Things that ONNX Runtime does without saying so. Each test plants one and shows that it is caught or avoided."""
