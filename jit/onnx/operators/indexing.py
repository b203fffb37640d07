"""ONNX operators: indexing."""
