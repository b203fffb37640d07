"""ONNX operators: casts."""
