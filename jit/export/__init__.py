"""Graphs to ONNX models and back."""
