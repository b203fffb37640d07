"""ONNX operators: norms."""
