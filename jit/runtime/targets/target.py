"""Targets of kernels: a triple, a CPU and its features, and the few facts that lowering asks of them."""

from __future__ import annotations

import ast
import os
import platform
import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from jit.ir.errors import CompileError

from ..kernels.cache import digest, shared
from . import ProcessorFamily, family_of
from .family import by_feature


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
        return Target(*_host()[1:])

    @staticmethod
    @cache
    def nvidia(arch: str) -> Target:
        """An NVIDIA GPU by its architecture, such as "sm_80". No GPU needs to be present.

        >>> Target.nvidia("sm_80").vector_bytes
        4
        """
        if not re.fullmatch(r"sm_[0-9]+[af]?", arch):
            raise CompileError(f"{arch!r} is not an architecture of NVIDIA's: they are named sm_80, sm_90a, ...")
        return Target("nvptx64-nvidia-cuda", arch, ())

    @staticmethod
    @cache
    def amdgpu(arch: str) -> Target:
        """An AMD GPU by its architecture, such as "gfx942". No GPU needs to be present, and none is used: text alone.

        >>> Target.amdgpu("gfx942").family.name
        'amdgpu'
        """
        if not re.fullmatch(r"gfx[0-9a-f]+", arch):
            raise CompileError(f"{arch!r} is not an architecture of AMD's: they are named gfx942, gfx1100, ...")
        return Target("amdgcn-amd-amdhsa", arch, () if arch.startswith("gfx9") else ("wavefrontsize64",))

    @cached_property
    def family(self) -> ProcessorFamily:
        """The facts that hold for all processors of its kind."""
        return family_of(self.triple)

    @cached_property
    def vector_bytes(self) -> int:
        """The width of the vectors that kernels are written in; 4 means scalars."""
        return by_feature(self.family.vector_bytes, self.features)

    @cached_property
    def vector_registers(self) -> int:
        """The number of vector registers."""
        return by_feature(self.family.vector_registers, self.features)

    @property
    def has_fma(self) -> bool:
        """True if a fused multiply-add is one instruction."""
        return by_feature(self.family.fma, self.features)

    @property
    def has_half(self) -> bool:
        """True if float16 is converted by an instruction; elsewhere LLVM calls helpers that may not exist."""
        return by_feature(self.family.half, self.features)

    @property
    def has_rounding(self) -> bool:
        """True if floor, ceil, trunc and round-to-even are instructions; elsewhere LLVM calls the C library."""
        return by_feature(self.family.rounding, self.features)

    @property
    def has_scalef(self) -> bool:
        """True if an instruction multiplies vectors by 2**n even where 2**n itself is beyond their dtype."""
        return by_feature(self.family.scalef, self.features)

    @property
    def has_convolutions(self) -> bool:
        """True if the tiles of convolutions and pooling were written for its vectors."""
        return self.family.convolutions and self.vector_bytes >= 32

    @property
    def is_gpu(self) -> bool:
        """True for a GPU: scalar code in many threads, and no C library."""
        return self.family.dialect is not None

    def circumstances(self) -> tuple[str, ...]:
        """All that decides on a module's code besides its text: LLVM's version, and what it is told of the machine."""
        import llvmlite

        absent = (f"-{name}" for name in self.absent)
        return llvmlite.__version__, llvm_version(), self.triple, self.cpu, *self.features, *absent

    def machine(self) -> Any:
        """An llvmlite TargetMachine; CompileError if LLVM knows no such target.

        Nothing in it lets LLVM fuse a product and a sum: results stay those of the separate instructions.
        """
        llvm = binding()
        flags = [f"+{name}" for name in self.features] + [f"-{name}" for name in self.absent]
        if self.is_gpu:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
        try:
            target = llvm.Target.from_triple(self.triple)
            return target.create_target_machine(
                cpu=self.cpu, features=",".join(flags), opt=2, reloc="pic", codemodel="small", jit=not self.is_gpu
            )
        except RuntimeError as error:
            raise CompileError(
                f"LLVM cannot generate code for {self.triple} ({error}); run with the interpreter instead"
            ) from error


# -- this machine ------------------------------------------------------------------------------------------------


def llvm_version() -> str:
    """The version of LLVM in this process."""
    return _host()[0]


@cache
def _host() -> tuple[str, str, str, tuple[str, ...], tuple[str, ...]]:
    """LLVM's version, triple, CPU, present and absent features: from the cache where the processor is the same.

    Asking LLVM takes loading it, which a process that finds all its kernels in the cache need not do.
    """
    kept, processor = shared(), _processor()
    name = digest(["host", _llvmlite(), platform.machine(), processor])
    found = kept.load(name) if kept is not None and processor else None
    if found is None:
        found = repr(_asked()).encode()
        if kept is not None and processor:
            kept.store(name, found)
    version, triple, cpu, present, absent = ast.literal_eval(found.decode())
    return version, triple, cpu, tuple(present), tuple(absent)


def _asked() -> list[Any]:
    llvm = binding()
    flags = llvm.get_host_cpu_features()
    present, absent = (sorted(name for name, on in flags.items() if on is wanted) for wanted in (True, False))
    version = ".".join(map(str, llvm.llvm_version_info))
    return [version, llvm.get_process_triple(), llvm.get_host_cpu_name(), present, absent]


def _llvmlite() -> str:
    """The version and the installation of llvmlite: another one may bring another LLVM."""
    import llvmlite

    return f"{llvmlite.__version__} {llvmlite.__file__} {os.stat(llvmlite.__file__).st_mtime_ns}"


def _processor() -> str:
    """The system's description of the first processor, or nothing."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = [line for line in file.read(1 << 14).partition("\n\n")[0].splitlines()]
    except OSError:
        return ""
    return "\n".join(line for line in lines if line.startswith(_TELLING))


_TELLING = ("vendor_id", "cpu family", "model", "stepping", "flags")


class LoadingError(CompileError, MemoryError):
    """LLVM's library cannot be loaded, mostly because too little memory is left for it."""


@cache
def binding() -> Any:
    """llvmlite's binding with the native code generator switched on."""
    try:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    except OSError as error:  # its library is not found, or does not fit into memory
        why = error.__cause__ or error.__context__ or error
        raise LoadingError(
            f"LLVM could not be loaded, perhaps for lack of memory ({why}); free some, or set JIT_NATIVE=0"
        ) from error
    return llvm
