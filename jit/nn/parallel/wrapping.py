"""`DataParallel`: a network as the attribute `module` of another one, which calls it."""

from __future__ import annotations

from typing import Any

from jit.ir.errors import UsageError

from ..modules import Module


class DataParallel(Module):
    """A network that is to run on several devices; here it runs on its own.

    Keys of the state dict begin with `module.`, as in PyTorch.

    Args:
        module: The network.
        device_ids: One device at most.
        output_device: Accepted and ignored.
        dim: The dim of the samples.

    Raises:
        UsageError: There are several devices.

    >>> import jit
    >>> list(jit.nn.DataParallel(jit.nn.Linear(2, 1)).state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        if device_ids is not None and len(device_ids) > 1:
            raise UsageError(f"DataParallel runs on one device, and {len(device_ids)} are given; pass one of them")
        self.device_ids = list(device_ids or ())
        self.output_device = output_device
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The result of the network."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: Any = None,
) -> Any:  # fmt: skip
    """The result of a network.

    Args:
        module: The network.
        inputs: Its input, or a tuple of them.
        device_ids: As of `DataParallel`.
        output_device: Accepted and ignored.
        dim: Accepted and ignored.
        module_kwargs: Arguments by name.
    """
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*given, **(module_kwargs or {}))
