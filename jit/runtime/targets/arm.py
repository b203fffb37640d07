"""64-bit ARM: NEON."""

from __future__ import annotations

from .family import YES, ProcessorFamily

FAMILY = ProcessorFamily(
    "arm",
    ("aarch64", "arm64"),
    vector_bytes=(("", 16),),
    vector_registers=(("", 32),),
    fma=YES,
    half=YES,
    rounding=YES,
    pause=("declare void @llvm.aarch64.isb(i32)", "call void @llvm.aarch64.isb(i32 15)"),
)
