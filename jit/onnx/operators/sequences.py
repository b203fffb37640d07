"""ONNX operators: sequences."""
