"""NVIDIA's GPUs: kernels become PTX."""

from __future__ import annotations

from ..llvm.build import LLVMBuilder, Register
from .family import YES, Dialect, ProcessorFamily
from .nvidia_tiles import tiles_of

WARP = 32
_BARRIER = "llvm.nvvm.barrier.cta.sync.aligned.all"


def _shuffle(builder: LLVMBuilder, way: str, word: Register, lanes: int, group: int, thread: Register) -> Register:
    everyone, segments = Register("-1", "i32"), WARP - min(group, WARP) << 8
    tail = [Register(str(lanes), "i32"), Register(str(segments + (0 if way == "up" else WARP - 1)), "i32")]
    return builder.call("i32", f"llvm.nvvm.shfl.sync.{way}.i32", everyone, word, *tail)


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
        multiprocessors=132,
        shared_bytes=48 << 10,
        held_bytes=32 << 10,
        barrier=(f"call void @{_BARRIER}(i32 0)",),
        barrier_declaration=f"declare void @{_BARRIER}(i32)",
        shuffle=_shuffle,
        bound='"nvvm.maxnreg"="{registers}"',
        tiles=tiles_of,
    ),
)
