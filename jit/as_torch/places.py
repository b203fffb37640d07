"""Places where a path of PyTorch means something else in this package, or nothing, and what it means there instead."""

from __future__ import annotations

MODULES = {
    "torch": "jit",
    "torch.storage": "jit.eager.storages",
    "torch.functional": "jit",
    "torch._C": "jit.as_torch.stand_ins.natives",
    "torch.autograd.anomaly_mode": "jit.autograd.anomaly",
    "torch.autograd.gradcheck": "jit.autograd.checks",
    "torch.accelerator": "jit.as_torch.stand_ins.accelerator",
    "torch.distributed.distributed_c10d": "jit.distributed",
    "torch.mps": "jit.as_torch.stand_ins.no_device",
    "torch.xpu": "jit.as_torch.stand_ins.no_device",
    "torch.nn.common_types": "jit.as_torch.stand_ins.common_types",
    "torch.profiler": "jit.as_torch.stand_ins.profiling",
    "torch.testing": "jit.as_torch.stand_ins.testing",
    "torch.return_types": "jit.as_torch.stand_ins.return_types",
    "torch._dynamo": "jit.as_torch.stand_ins.dynamo",
    "torch._dynamo.config": "jit.as_torch.stand_ins.dynamo_config",
    "torch.export": "jit.as_torch.stand_ins.exported",
    "torch.jit": "jit.as_torch.stand_ins.scripting",
    "torch.jit.annotations": "typing",
    "torch.quantization": "jit.ao.quantization",
    "torch.multiprocessing": "jit.as_torch.stand_ins.processes",
    "torch.version": "jit.as_torch.stand_ins.version",
}
"""Module of PyTorch -> the module that answers for it. All others have the same path in `jit`."""

_LOSSES = (
    "binary_cross_entropy_with_logits", "cosine_embedding_loss", "ctc_loss", "hinge_embedding_loss", "kl_div",
    "margin_ranking_loss", "poisson_nll_loss", "triplet_margin_loss", "feature_alpha_dropout",
)  # fmt: skip
"""Functions that PyTorch has in `torch`, too."""

NAMES = {
    **{f"torch.{name}": f"jit.nn.functional:{name}" for name in _LOSSES},
    **{f"torch.{name}": f"jit.autograd:{name}" for name in ("is_anomaly_enabled", "is_anomaly_check_nan_enabled")},
    **{f"torch.{name}": f"jit.cuda:{name}" for name in ("Stream", "Event")},
    **{f"torch.{name}": "jit.eager.proxies:TracedScalar" for name in ("SymInt", "SymFloat", "SymBool")},
    **{
        f"torch.nn.functional.{name}": f"jit.overrides:{name}"
        for name in (
            "has_torch_function",
            "has_torch_function_unary",
            "has_torch_function_variadic",
            "handle_torch_function",
        )
    },
    **{f"torch.{q}": f"jit:{name}" for q, name in {"quint8": "uint8", "qint8": "int8", "qint32": "int32"}.items()},
    **{
        f"torch.{scheme}": f"jit.ao.quantization.schemes:{scheme}"
        for scheme in ("per_channel_affine", "per_channel_symmetric", "per_tensor_affine", "per_tensor_symmetric")
    },
    "torch.autograd.gradcheck": "jit.autograd.checks:gradcheck",
    "torch.GradScaler": "jit.amp:GradScaler",
    "torch._VF": "jit.eager.namespace:F",
    "torch.nn._VF": "jit.eager.namespace:F",
    "torch.nn.functional.torch": "jit",
    "torch.nn.functional.math": "math",
    "torch.nn.functional.grad": "jit.nn.grad",
    "torch.__version__": "jit.as_torch.stand_ins.version:__version__",
    "torch.trace": "jit.linalg:trace",
    "torch.default_generator": "jit.eager.generators:DEFAULT",
}
"""Name in a module of PyTorch -> what it means, as module:name."""

REASONS = {
    "torch.distributed": "processes exchange tensors by the collectives and messages of torch.distributed, on MPI",
    "torch.quantization": "networks are quantised by prepare, prepare_qat and convert, or quantize_static",
    "torch.ao": "networks are quantised by prepare, prepare_qat and convert of torch.ao.quantization",
    "torch.optim.SparseAdam": "gradients are dense here; use optim.Adam, which moves rows without a gradient, too",
    "torch.nested": "nested tensors are not there; pad the sequences, see nn.utils.rnn.pad_sequence",
    "torch._six": "torch 2 has it no longer, either; import it from collections.abc or math",
    "torch.rfft": "torch 2 has it no longer, either; use torch.fft.rfft",
    "torch.symeig": "torch 2 has it no longer, either; use torch.linalg.eigh",
    "torch.eig": "torch 2 has it no longer, either; use torch.linalg.eig",
    "torch.gels": "torch 2 has it no longer, either; use torch.linalg.lstsq",
    "torch.utils.cpp_extension": "C++ extensions of torch cannot be loaded; jit.CppOp calls native functions",
    "torch.library": "operators are declared in another way; autograd.Function defines one in Python",
    "torch.ops": "operators are declared in another way; autograd.Function defines one in Python",
}
"""Name that is absent -> why, and the way out."""


def sentence(name: str) -> str:
    """Why a name cannot be had, and what to do."""
    parts = name.split(".")
    known = (REASONS.get(".".join(parts[:end])) for end in range(len(parts), 0, -1))
    reason = next(filter(None, known), "leave it out, or assign one of your own to this name")
    return f"{name} is not in jit, which stands for torch here: {reason}"
