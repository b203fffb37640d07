"""Places where a path of PyTorch means something else in this package, or nothing, and what it means there instead."""

from __future__ import annotations

MODULES = {
    "torch": "jit",
    "torch.storage": "jit.eager.storages",
    "torch.functional": "jit",
    "torch.random": "jit.eager.generators",
    "torch._C": "jit.as_torch.stand_ins.natives",
    "torch._dynamo": "jit.as_torch.stand_ins.dynamo",
    "torch._dynamo.config": "jit.as_torch.stand_ins.dynamo_config",
    "torch.export": "jit.as_torch.stand_ins.exported",
    "torch.jit": "jit.as_torch.stand_ins.scripting",
    "torch.multiprocessing": "jit.as_torch.stand_ins.processes",
    "torch.version": "jit.as_torch.stand_ins.version",
}
"""Module of PyTorch -> the module that answers for it. All others have the same path in `jit`."""

NAMES = {
    "torch.__version__": "jit.as_torch.stand_ins.version:__version__",
    "torch.trace": "jit.linalg:trace",
}
"""Name in a module of PyTorch -> what it means, as module:name."""

REASONS = {
    "torch.distributed": "there is one process here, and one device",
    "torch.quantization": "quantised networks are not there",
    "torch.ao": "quantised networks are not there",
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
