"""ONNX operators: shapes."""
