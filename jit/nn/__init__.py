"""Networks: `Module`, layers, losses, and their functions in `jit.nn.functional`."""

# ruff: noqa: I001 - grouped as it is read, not one name a line

from __future__ import annotations

from . import functional, init, utils
from ..hooks import RemovableHandle
from .activation import (
    ELU, GELU, GLU, SELU, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax, Mish, PReLU, ReLU, ReLU6,
    Sigmoid, SiLU, Softmax, Softmin, Softplus, Softsign, Tanh, Tanhshrink,
)  # fmt: skip
from .cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from .containers import ModuleDict, ModuleList, ParameterList, Sequential
from .convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .linear import Bilinear, Embedding, Linear
from .losses import (
    BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, NLLLoss, SmoothL1Loss,
)  # fmt: skip
from .modules import Module
from .normalisation import (
    BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LayerNorm,
)  # fmt: skip
from .parameter import Parameter
from .pooling import (
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d, AvgPool1d, AvgPool2d,
    AvgPool3d, MaxPool1d, MaxPool2d, MaxPool3d,
)  # fmt: skip
from .recurrent import GRU, LSTM, RNN, RNNBase
from .shaping import Dropout, Dropout1d, Dropout2d, Dropout3d, Flatten, Identity, PixelShuffle, Unflatten

__all__ = [
    "Module", "Parameter", "RemovableHandle", "functional", "init", "utils",
    "ModuleDict", "ModuleList", "ParameterList", "Sequential",
    "Bilinear", "Embedding", "Linear",
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm",
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm",
    "ELU", "GELU", "GLU", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish",
    "PReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmin", "Softplus", "Softsign", "Tanh",
    "Tanhshrink",
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d",
    "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "Flatten", "Identity", "PixelShuffle", "Unflatten",
    "GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase",
    "BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "NLLLoss",
    "SmoothL1Loss",
]  # fmt: skip
