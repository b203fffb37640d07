"""Graphs to ONNX models and back."""

from .exporter import Exported, export_graph
from .opsets import DEFAULT_OPSET, OPSETS
from .registration import register_symbolic, unregister_symbolic
from .report import ExportReport
from .verification import Verification, verify_model

__all__ = [
    "DEFAULT_OPSET", "OPSETS", "ExportReport", "Exported", "Verification", "export_graph", "register_symbolic",
    "unregister_symbolic", "verify_model",
]  # fmt: skip
