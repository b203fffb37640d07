"""ONNX operators: random."""
