"""Graphs to ONNX models and back."""

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_export import *  # noqa: F403
else:
    __getattr__, __dir__ = late(
        __name__,
        {
            "exporter": "Exported export_graph",
            "opsets": "DEFAULT_OPSET OPSETS",
            "registration": "register_symbolic unregister_symbolic",
            "report": "ExportReport",
            "verification": "Verification verify_model",
        },
    )  # fmt: skip

__all__ = [
    "DEFAULT_OPSET", "OPSETS", "ExportReport", "Exported", "Verification", "export_graph", "register_symbolic",
    "unregister_symbolic", "verify_model",
]  # fmt: skip
