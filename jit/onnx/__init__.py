"""ONNX in both directions: PyTorch's names for export, and models that become functions of tensors."""

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_onnx import *  # noqa: F403
else:
    __getattr__, __dir__ = late(
        __name__,
        {
            "exporting": "OperatorExportTypes TrainingMode export is_in_onnx_export",
            "importing": "ImportedModel import_onnx",
            "table": "operator",
        },
        ("backend",),
    )

__all__ = [
    "ImportedModel", "OperatorExportTypes", "TrainingMode", "export", "import_onnx", "is_in_onnx_export", "operator",
]  # fmt: skip
