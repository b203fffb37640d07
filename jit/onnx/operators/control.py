"""ONNX operators: control."""
