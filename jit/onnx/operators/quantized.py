"""ONNX operators: quantized."""
