"""Helpers around parameters and sequences: clipping gradients, vectors of all parameters, normed weights, packing."""

from __future__ import annotations

from . import parametrizations, parametrize, rnn
from .fusion import fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights
from .gradients import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .normed import remove_weight_norm, weight_norm
from .spectral import remove_spectral_norm, spectral_norm
from .vectors import parameters_to_vector, vector_to_parameters

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
    "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm", "parameters_to_vector",
    "parametrizations", "parametrize", "remove_spectral_norm", "remove_weight_norm", "rnn", "spectral_norm",
    "vector_to_parameters", "weight_norm",
]  # fmt: skip
