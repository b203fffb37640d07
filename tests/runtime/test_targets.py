"""Targets: facts of families by feature, no name of a processor outside their folder, and a GPU that is text alone."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import jit
from jit.ir.errors import CompileError
from jit.runtime.gpu.device import device_kernel
from jit.runtime.kernels.codegen import compile_nest
from jit.runtime.targets import families, family_of
from jit.runtime.targets.target import Target

from ..passes.test_fuse_rows import ONE_KERNEL
from .grid_emulation import AMD as GFX
from .grid_emulation import emulated
from .test_ptx import FIVE, group_of
from .test_ptx_registry import operators, texts

pytestmark = pytest.mark.llvm


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        (Target("x86_64-pc-linux-gnu", "x86-64", ("sse2",)), (16, 16, False, False, False, False)),
        (Target("x86_64-pc-linux-gnu", "x", ("avx", "f16c", "fma", "sse4.1")), (32, 16, True, True, True, False)),
        (Target("x86_64-pc-linux-gnu", "x", ("avx", "avx512f", "avx512vl", "fma")), (64, 32, True, False, False, True)),
        (Target("aarch64-unknown-linux-gnu", "generic", ("neon",)), (16, 32, True, True, True, False)),
        (Target("riscv64-unknown-linux-gnu", "generic", ()), (16, 16, False, False, False, False)),
        (Target.nvidia("sm_80"), (4, 16, True, True, True, False)),
        (GFX, (4, 16, True, True, True, False)),
    ],
)  # fmt: skip
def test_facts_follow_family_and_features(target, wanted):
    facts = (target.vector_bytes, target.vector_registers, target.has_fma, target.has_half, target.has_rounding)
    assert (*facts, target.has_scalef) == wanted


def test_every_module_with_facts_is_a_family():
    folder = Path(jit.__file__).parent / "runtime" / "targets"
    assert len(families()) == len([path for path in folder.glob("*.py") if "\nFAMILY = " in path.read_text()])
    assert {"x86", "arm", "nvidia", "amdgpu"} <= {family.name for family in families()}


def test_every_family_is_found_by_its_triples():
    for family in families():
        assert {family_of(f"{triple}-somebody-somewhere") for triple in family.triples} == {family}


def test_no_processor_is_named_outside_the_families():
    """Not in code: docstrings may. The target itself makes GPUs by name."""
    package = Path(jit.__file__).parent
    named = re.compile(r"llvm\.(x86|aarch64|nvvm|amdgcn)|ptx_kernel|amdgpu_kernel|nvptx64|amdgcn|is_x86|is_nvidia")
    allowed = {"target.py", "device.py"}
    found = []
    for path in (package / "runtime").rglob("*.py"):
        if path.parent.name == "targets" or path.name in allowed:
            continue
        strings = (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant | ast.Attribute))
        texts_ = (n.attr if isinstance(n, ast.Attribute) else n.value for n in strings)
        found += [(path.name, t) for t in texts_ if isinstance(t, str) and "\n" not in t and named.search(t)]
    assert not found


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100"])
@pytest.mark.parametrize("name", [*FIVE, *ONE_KERNEL])
def test_an_amd_gpu_gets_assembly_of_every_group(name, arch):
    nest = FIVE[name][0] if name in FIVE else group_of(name)[0]
    kernel = device_kernel(nest, Target.amdgpu(arch))
    assert f'.amdgcn_target "amdgcn-amd-amdhsa--{arch}' in kernel.assembly
    assert f".amdhsa_kernel {kernel.name}" in kernel.assembly and "s_endpgm" in kernel.assembly
    shares = kernel.grid.kind == "rows" and kernel.grid.group > 1
    assert not shares or "ds_bpermute_b32" in kernel.assembly
    assert kernel.grid.kind != "tiles" or "s_barrier" in kernel.assembly


@pytest.mark.parametrize("name", [*FIVE, *ONE_KERNEL])
def test_the_threads_of_an_amd_gpu_compute_what_lanes_compute(name):
    nest, inputs, outputs = FIVE[name] if name in FIVE else group_of(name)
    wanted = [a.copy() for a in outputs]
    compile_nest(nest)(inputs, wanted)
    emulated(nest, inputs, outputs, GFX)
    for found, expected in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


def test_wavefronts_have_64_threads_everywhere():
    for arch in ("gfx1030", "gfx1100", "gfx1200"):
        assert ".amdhsa_wavefront_size32 0" in device_kernel(FIVE["sum 1"][0], Target.amdgpu(arch)).assembly


@operators
def test_an_amd_gpu_gets_assembly_of_every_operator(op):
    """The nests that NVIDIA's kernels of the operator are made of."""
    for kernel in [*texts(op)][:1]:
        assert ".amdhsa_kernel" in device_kernel(kernel.nest, GFX).assembly


def test_what_no_gpu_is_is_refused():
    nest = FIVE["lstm cell"][0]
    with pytest.raises(CompileError, match="is not a GPU"):
        device_kernel(nest, Target.host())
    with pytest.raises(CompileError, match="takes no PTX"):
        _ = device_kernel(nest, GFX).ptx
    with pytest.raises(CompileError, match="gfx942"):
        Target.amdgpu("sm_80")
