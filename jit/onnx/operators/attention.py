"""ONNX operators: attention."""
