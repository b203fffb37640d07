"""ONNX operators: losses."""
