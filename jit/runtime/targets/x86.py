"""x86-64: SSE2 at least, AVX and AVX-512 by feature."""

from __future__ import annotations

from typing import Any

from ..llvm.build import Register
from .family import ProcessorFamily, brought_by


def _instruction(name: str, a: Register, b: Register) -> list[Any]:
    lanes, _, element = a.type[1:-1].partition(" x ")
    single = element == "float"
    bits = int(lanes) * (32 if single else 64)
    kind = "ps" if single else "pd"
    rounding = [Register("4", "i32")] if bits == 512 else []
    if name == "scalef":
        every = Register("-1", f"i{max(int(lanes), 8)}")
        return [f"llvm.x86.avx512.mask.scalef.{kind}.{bits}", a, b, a, every, *rounding]
    if bits == 128:
        return [f"llvm.x86.sse{'' if single else 2}.{name}.{kind}", a, b]
    family = "avx512" if bits == 512 else "avx"
    return [f"llvm.x86.{family}.{name}.{kind}.{bits}", a, b, *rounding]


FAMILY = ProcessorFamily(
    "x86",
    ("x86_64", "amd64"),
    vector_bytes=(("avx512f", 64), ("avx", 32), ("", 16)),
    vector_registers=(("avx512f", 32), ("", 16)),
    fma=brought_by("fma"),
    half=brought_by("f16c"),
    rounding=brought_by("sse4.1"),
    overflow="least",
    instruction=_instruction,
    scalef=brought_by("avx512vl"),
    convolutions=True,
    pause=("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
)
