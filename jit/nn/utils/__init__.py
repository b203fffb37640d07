"""Helpers around parameters and sequences: clipping gradients, vectors of all parameters, normed weights, packing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import elsewhere, late

if TYPE_CHECKING:
    from jit._stubs.names_nn_utils import *  # noqa: F403
else:
    __getattr__, __dir__ = late(
        __name__,
        {
            "fusion": "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights",
            "gradients":
            "clip_grad_norm clip_grad_norm_ clip_grad_value clip_grad_value_ clip_grads_with_norm_ get_total_norm",
            "normed": "remove_weight_norm weight_norm",
            "spectral": "remove_spectral_norm spectral_norm",
            "skipping": "skip_init",
            "vectors": "parameters_to_vector vector_to_parameters",
        },
        ("parametrizations", "parametrize", "prune", "rnn", "stateless"),
    )  # fmt: skip

for _old, _new in {"clip_grad": "gradients", "convert_parameters": "vectors"}.items():
    vars()[_old] = elsewhere(f"{__name__}.{_old}", f"{__name__}.{_new}")
"""Files of PyTorch from which programs import."""

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value", "clip_grad_value_", "clip_grads_with_norm_",
    "get_total_norm", "parameters_to_vector", "parametrizations", "parametrize", "prune", "remove_spectral_norm",
    "remove_weight_norm", "rnn", "skip_init", "spectral_norm", "stateless", "vector_to_parameters", "weight_norm",
]  # fmt: skip
