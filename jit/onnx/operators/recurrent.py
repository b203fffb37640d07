"""ONNX operators: recurrent."""
