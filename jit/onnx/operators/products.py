"""ONNX operators: products."""
