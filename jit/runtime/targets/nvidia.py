"""NVIDIA's GPUs: kernels become PTX."""

from __future__ import annotations

from ..llvm.build import LLVMBuilder, Register
from .family import YES, Dialect, ProcessorFamily

WARP = 32
_BARRIER = "llvm.nvvm.barrier.cta.sync.aligned.all"


def _shuffle(builder: LLVMBuilder, way: str, word: Register, lanes: int, threads: int, thread: Register) -> Register:
    mask = (1 << min(threads, WARP)) - 1
    first = Register(str(mask - (1 << 32) if mask >> 31 else mask), "i32")
    tail = [Register(str(lanes), "i32"), Register("0" if way == "up" else "31", "i32")]
    return builder.call("i32", f"llvm.nvvm.shfl.sync.{way}.i32", first, word, *tail)


FAMILY = ProcessorFamily(
    "nvidia",
    ("nvptx64",),
    vector_bytes=(("", 4),),
    vector_registers=(("", 16),),
    fma=YES,
    half=YES,
    rounding=YES,
    dialect=Dialect(
        convention="ptx_kernel",
        parameter="ptr byval({type}) align 8 %{name}",
        prologue=("%status = alloca i32",),
        thread="llvm.nvvm.read.ptx.sreg.tid.x",
        block="llvm.nvvm.read.ptx.sreg.ctaid.x",
        comment="//",
        warp=WARP,
        shared_bytes=48 << 10,
        barrier=(f"call void @{_BARRIER}(i32 0)",),
        barrier_declaration=f"declare void @{_BARRIER}(i32)",
        shuffle=_shuffle,
    ),
)
