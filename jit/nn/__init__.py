"""Networks: `Module`, layers, losses, and their functions in `jit.nn.functional`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.eager.hooks import RemovableHandle
from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_nn import *  # noqa: F403
else:
    __getattr__, __dir__ = late(
        __name__,
        {
            "activation":
                "CELU ELU GELU GLU SELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax "
                "Mish PReLU RReLU ReLU ReLU6 Sigmoid SiLU Softmax Softmax2d Softmin Softplus Softshrink Softsign Tanh "
                "Tanhshrink Threshold",
            "adaptive": "AdaptiveLogSoftmaxWithLoss",
            "attention.multihead": "MultiheadAttention",
            "cells": "GRUCell LSTMCell RNNCell RNNCellBase",
            "collections": "ParameterDict ParameterList",
            "comparisons":
                "CTCLoss CosineEmbeddingLoss CosineSimilarity GaussianNLLLoss HingeEmbeddingLoss MarginRankingLoss "
                "MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss PairwiseDistance PoissonNLLLoss "
                "SoftMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss",
            "containers": "ModuleDict ModuleList Sequential",
            "convolution": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
            "everywhere":
                "register_module_backward_hook register_module_buffer_registration_hook "
                "register_module_forward_hook "
                "register_module_forward_pre_hook register_module_full_backward_hook "
                "register_module_full_backward_pre_hook register_module_module_registration_hook "
                "register_module_parameter_registration_hook",
            "lazy":
                "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d "
                "LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d "
                "LazyLinear LazyModuleMixin",
            "linear": "Bilinear Linear",
            "lookup": "Embedding EmbeddingBag",
            "losses":
                "BCELoss BCEWithLogitsLoss CrossEntropyLoss HuberLoss KLDivLoss L1Loss MSELoss NLLLoss SmoothL1Loss",
            "modules": "Module",
            "normalisation":
                "BatchNorm1d BatchNorm2d BatchNorm3d CrossMapLRN2d GroupNorm InstanceNorm1d InstanceNorm2d "
                "InstanceNorm3d LayerNorm LocalResponseNorm RMSNorm",
            "parallel.wrapping": "DataParallel",
            "padding":
                "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d "
                "ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d "
                "ZeroPad2d ZeroPad3d",
            "parameter": "Parameter UninitializedBuffer UninitializedParameter",
            "pooling":
                "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d "
                "AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d FractionalMaxPool2d FractionalMaxPool3d LPPool1d "
                "LPPool2d LPPool3d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d",
            "recurrent": "GRU LSTM RNN RNNBase",
            "resampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
            "shaping":
                "AlphaDropout ChannelShuffle Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout Flatten Fold "
                "Identity PixelShuffle PixelUnshuffle Unflatten Unfold",
            "synchronized": "SyncBatchNorm",
            "transformer":
                "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer",
        },
        ("attention", "functional", "grad", "init", "parallel", "utils"),
    )  # fmt: skip

__all__ = [
    "Module", "Parameter", "RemovableHandle", "attention", "functional", "init", "parallel", "utils",
    "register_module_buffer_registration_hook", "register_module_forward_hook", "register_module_forward_pre_hook",
    "register_module_full_backward_hook", "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook", "register_module_parameter_registration_hook",
    "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential",
    "Bilinear", "Embedding", "EmbeddingBag", "Linear",
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "CrossMapLRN2d", "GroupNorm", "SyncBatchNorm", "DataParallel",
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "LocalResponseNorm", "RMSNorm",
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
    "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmax2d",
    "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
    "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d", "LazyLinear", "LazyModuleMixin", "UninitializedBuffer", "UninitializedParameter",
    "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout",
    "ChannelShuffle", "Flatten", "Fold", "Identity", "PixelShuffle", "PixelUnshuffle", "Unflatten", "Unfold",
    "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d",
    "GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase",
    "MultiheadAttention", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
    "AdaptiveLogSoftmaxWithLoss",
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss",
    "TripletMarginLoss", "TripletMarginWithDistanceLoss", "CosineSimilarity", "PairwiseDistance",
]  # fmt: skip
