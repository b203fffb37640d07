"""What kernels are compiled for: a triple, a CPU, the width of its vectors and the few instructions we ask about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from jit.ir.errors import CompileError


@dataclass(frozen=True)
class Target:
    """A machine as LLVM names it. `Target.host()` is this one; others serve tests and cross-compilation.

    >>> Target.host().vector_bytes in (16, 32, 64)
    True
    """

    triple: str
    cpu: str
    features: tuple[str, ...]
    """The instruction-set features that are present, sorted, e.g. ("avx2", "fma")."""
    absent: tuple[str, ...] = ()
    """Features that the CPU's name implies but the machine lacks (a hypervisor may hide them)."""

    @staticmethod
    @cache
    def host() -> Target:
        """The machine that this process runs on."""
        llvm = binding()
        flags = llvm.get_host_cpu_features()
        present = tuple(sorted(name for name, on in flags.items() if on))
        absent = tuple(sorted(name for name, on in flags.items() if not on))
        return Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), present, absent)

    @property
    def is_x86(self) -> bool:
        """True for x86-64."""
        return self.triple.startswith(("x86_64", "amd64"))

    @property
    def is_arm(self) -> bool:
        """True for 64-bit ARM."""
        return self.triple.startswith(("aarch64", "arm64"))

    @property
    def vector_bytes(self) -> int:
        """The width of the vectors that kernels are written in."""
        if "avx512f" in self.features:
            return 64
        return 32 if "avx" in self.features else 16

    @property
    def vector_registers(self) -> int:
        """How many of them there are."""
        return 32 if self.is_arm or "avx512f" in self.features else 16

    @property
    def has_fma(self) -> bool:
        """True if a fused multiply-add is one instruction."""
        return self.is_arm or "fma" in self.features

    @property
    def has_half(self) -> bool:
        """True if float16 is converted by an instruction; elsewhere LLVM calls helpers that may not exist."""
        return self.is_arm or "f16c" in self.features

    @property
    def has_rounding(self) -> bool:
        """True if floor, ceil, trunc and round-to-even are instructions; elsewhere LLVM calls the C library."""
        return self.is_arm or "sse4.1" in self.features

    def machine(self) -> Any:
        """An llvmlite TargetMachine; CompileError if LLVM knows no such target.

        Nothing in it lets LLVM fuse a product and a sum: results stay those of the separate instructions.
        """
        llvm = binding()
        flags = [f"+{name}" for name in self.features] + [f"-{name}" for name in self.absent]
        try:
            target = llvm.Target.from_triple(self.triple)
            return target.create_target_machine(
                cpu=self.cpu, features=",".join(flags), opt=2, reloc="pic", codemodel="small", jit=True
            )
        except RuntimeError as error:
            raise CompileError(
                f"LLVM cannot generate code for {self.triple} ({error}); run with the interpreter instead"
            ) from error


@cache
def binding() -> Any:
    """llvmlite's binding with the native code generator switched on."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm
