"""`SyncBatchNorm`: a batch norm whose statistics are those of all processes; here there is one."""

from __future__ import annotations

from typing import Any

from .modules import Module
from .normalisation import BatchNorm1d, BatchNorm2d, BatchNorm3d, _BatchNorm


class SyncBatchNorm(_BatchNorm):
    """Normalises as `BatchNorm1d` does, inputs of any number of dims.

    Args:
        num_features: Channels of the input.
        eps: Added to the variance.
        momentum: The weight of a new batch in the running statistics; None averages over all batches.
        affine: Whether to learn a scale and a shift per channel.
        track_running_stats: Whether to keep running statistics.
        process_group: Accepted and ignored: there is one process.
        device: The device of the parameters and statistics; the default one if left out.
        dtype: The element type of the parameters and statistics; float32 if left out.

    >>> import jit
    >>> jit.nn.SyncBatchNorm(3)(jit.randn(8, 3, 4, 4)).shape
    jit.Size([8, 3, 4, 4])
    """

    ranks = (2, 3, 4, 5)

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group: Any = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self.process_group = process_group

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with its batch norms replaced, which keep their parameters and statistics.

        Args:
            module: The module.
            process_group: Accepted and ignored.
        """
        made = module
        if isinstance(module, (BatchNorm1d, BatchNorm2d, BatchNorm3d)):
            made = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats)
            made._parameters.update(module._parameters)
            made._buffers.update(module._buffers)
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child))
        return made
