"""AMD's GPUs, such as gfx942: kernels become GCN assembly, as text; nothing here launches them.

A wavefront has 64 threads. Pointers of kernels are flat except those to parameters (address space 4), to memory that a
block shares (3) and to a thread's own memory (5); see LLVM's "User Guide for AMDGPU Backend".
"""

from __future__ import annotations

from ..llvm.build import LLVMBuilder, Register
from .family import YES, Dialect, ProcessorFamily

WAVE = 64
_BARRIER = "llvm.amdgcn.s.barrier"


def _shuffle(builder: LLVMBuilder, way: str, word: Register, lanes: int, group: int, thread: Register) -> Register:
    """Read another lane's value, by the number of the lane times 4."""
    count = Register(str(lanes), "i32")
    own = builder.convert("trunc", builder.binary("and", thread, Register(str(WAVE - 1), "i64")), "i32")
    if way == "idx":
        own = builder.binary("and", own, Register(str(-min(group, WAVE)), "i32"))
    source = builder.binary("sub" if way == "up" else "add", own, count)
    place = builder.binary("mul", source, Register("4", "i32"))
    return builder.call("i32", "llvm.amdgcn.ds.bpermute", place, word)


FAMILY = ProcessorFamily(
    "amdgpu",
    ("amdgcn",),
    vector_bytes=(("", 4),),
    vector_registers=(("", 16),),
    fma=YES,
    half=YES,
    rounding=YES,
    dialect=Dialect(
        convention="amdgpu_kernel",
        parameter="ptr addrspace(4) byref({type}) align 8 %{name}.given",
        prologue=(
            "%data = addrspacecast ptr addrspace(4) %data.given to ptr",
            "%geometry = addrspacecast ptr addrspace(4) %geometry.given to ptr",
            "%status.own = alloca i32, addrspace(5)",
            "%status = addrspacecast ptr addrspace(5) %status.own to ptr",
        ),
        thread="llvm.amdgcn.workitem.id.x",
        block="llvm.amdgcn.workgroup.id.x",
        comment=";",
        warp=WAVE,
        multiprocessors=304,
        shared_bytes=64 << 10,
        held_bytes=16 << 10,
        barrier=(
            'fence syncscope("workgroup") release',
            f"call void @{_BARRIER}()",
            'fence syncscope("workgroup") acquire',
        ),
        barrier_declaration=f"declare void @{_BARRIER}()",
        shuffle=_shuffle,
    ),
)
