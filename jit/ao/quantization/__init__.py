"""Quantisation of networks: observers, fake quantisation, and networks whose weights are integers.

>>> import jit
>>> from jit.ao.quantization import quantize_static
>>> net = jit.nn.Sequential(jit.nn.Linear(4, 8), jit.nn.ReLU(), jit.nn.Linear(8, 2))
>>> samples = [jit.randn(16, 4) for _ in range(4)]
>>> small = quantize_static(net, samples)                     # `jit.export_onnx(small, samples[0])` writes it
>>> small[0].quantized_weight.integers.dtype
jit.int8

or step by step, `convert(prepare(net))` with the samples run in between, and `prepare_qat(net)` to train with what
rounding does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_ao_quantization import *  # noqa: F403
else:
    __getattr__, __dir__ = late(
        __name__,
        {
            "fake_quantize":
                "FakeQuantize FakeQuantizeBase default_fake_quant default_per_channel_weight_fake_quant "
                "default_weight_fake_quant disable_fake_quant disable_observer enable_fake_quant enable_observer",
            "fusing": "fuse_modules",
            "layers": "IntegerTensor RoundedInput",
            "observer":
                "HistogramObserver MinMaxObserver MovingAverageMinMaxObserver MovingAveragePerChannelMinMaxObserver "
                "ObserverBase PerChannelMinMaxObserver default_histogram_observer default_observer "
                "default_per_channel_weight_observer default_weight_observer",
            "preparing": "DeQuantStub QuantStub convert prepare prepare_qat",
            "qconfig":
                "QConfig default_per_channel_qconfig default_qat_qconfig default_qconfig get_default_qat_qconfig "
                "get_default_qconfig",
            "schemes":
                "QScheme per_channel_affine per_channel_symmetric per_tensor_affine per_tensor_symmetric",
            "static": "quantize_static",
        },
    )  # fmt: skip

__all__ = [
    "DeQuantStub", "FakeQuantize", "FakeQuantizeBase", "HistogramObserver", "IntegerTensor", "MinMaxObserver",
    "MovingAverageMinMaxObserver", "MovingAveragePerChannelMinMaxObserver", "ObserverBase", "PerChannelMinMaxObserver",
    "QConfig", "QScheme", "QuantStub", "RoundedInput", "convert", "default_fake_quant", "default_histogram_observer",
    "default_observer", "default_per_channel_qconfig", "default_per_channel_weight_fake_quant",
    "default_per_channel_weight_observer", "default_qat_qconfig", "default_qconfig", "default_weight_fake_quant",
    "default_weight_observer", "disable_fake_quant", "disable_observer", "enable_fake_quant", "enable_observer",
    "fuse_modules", "get_default_qat_qconfig", "get_default_qconfig", "per_channel_affine", "per_channel_symmetric",
    "per_tensor_affine", "per_tensor_symmetric", "prepare", "prepare_qat", "quantize_static",
]  # fmt: skip
