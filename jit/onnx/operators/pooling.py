"""ONNX operators: pooling."""
