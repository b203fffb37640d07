"""A class has a name that no other module of jit/ gives to a class, but for the few below."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "jit"

SHARED = {
    "Tensor": ({"eager/tensors.py", "ops/protocols.py"}, "the protocol is of this very class"),
    "Value": (
        {"ir/graph.py", "ops/protocols.py"},
        "a value of the traced graph, and in declarations one of the ONNX model that is written of it",
    ),
    "Meta": ({"autograd/nodes.py", "ops/protocols.py"}, "the protocol is of this very class"),
    "Term": ({"ops/protocols.py", "runtime/kernels/terms.py"}, "the protocol is of this very class"),
    "Terms": ({"ops/protocols.py", "runtime/kernels/terms.py"}, "the protocol is of this very class"),
    "Node": (
        {"autograd/nodes.py", "eager/derivatives.py", "ir/graph.py"},
        "public in both rooms, as jit.ir.Node and jit.autograd.graph.Node; the third is the protocol of the latter",
    ),
    "Kernel": (
        {"ir/kernel.py", "runtime/kernels/codegen.py"},
        "declarations of operators say kernel=Kernel(...), and compiled kernels are called so everywhere",
    ),
    **{
        name: (
            {module, "amp/cpu.py", "amp/cuda.py"},
            "PyTorch has it in three places, with other arguments",
        )
        for name, module in {"autocast": "eager/autocasting.py", "GradScaler": "amp/grad_scaler.py"}.items()
    },
    "Backend": (
        {"backends.py", "distributed/groups.py"},
        "PyTorch has it in torch.distributed; the other is a module of `jit.backends`",
    ),
    "Work": (
        {"distributed/works.py", "runtime/processes/works.py", "runtime/kernels/work.py"},
        "PyTorch's users hold one of an exchange, which holds the engine's; the third counts operations",
    ),
    "Identity": ({"nn/shaping.py", "nn/utils/prune.py"}, "PyTorch has both: a layer, and a way to prune"),
    "profile": (
        {"autograd/profiler.py", "as_torch/stand_ins/profiling.py"},
        "PyTorch has both, in torch.autograd.profiler and in torch.profiler",
    ),
    "WeightNorm": (
        {"nn/utils/normed.py", "nn/utils/parametrizations.py"},
        "PyTorch has both: a hook, and the parametrization that took its place",
    ),
}
"""The modules that define a class of this name, and why it is one name nevertheless."""


def modules_of_classes() -> dict[str, set[str]]:
    """Every class's name, without underscores in front, and the modules that define it."""
    found = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].add(path.relative_to(PACKAGE).as_posix())
    return found


MODULES = modules_of_classes()


def test_no_two_modules_give_a_class_the_same_name():
    shared = {name: modules for name, modules in MODULES.items() if len(modules) > 1}
    allowed = {name: modules for name, (modules, _) in SHARED.items()}
    assert {name: modules for name, modules in shared.items() if modules != allowed.get(name)} == {}


@pytest.mark.parametrize("name", SHARED)
def test_an_exception_is_still_one(name):
    assert SHARED[name][0] <= MODULES[name], "it shares its name no longer: take it from the list"
