"""ONNX operators: signals."""
