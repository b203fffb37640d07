"""ONNX operators: reductions."""
