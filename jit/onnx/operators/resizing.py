"""ONNX operators: resizing."""
