"""A nest as a kernel of a GPU: its LLVM IR, and the assembly that LLVM prints; nothing here needs a GPU or its toolkit.

The end of `nest -> schedule -> gpu.schedule -> gpu.lowering -> device`. For NVIDIA's GPUs the assembly is PTX, which
the driver takes to launch a kernel; `ptxas` is run only to see that it accepts the PTX and what the kernel costs. For
AMD's GPUs it is text to look at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from jit.ir.errors import CompileError

from ..kernels.codegen import geometry_of, words_of
from ..kernels.nest import Nest
from ..kernels.schedule import Loops, schedule
from ..llvm.function import LoweredFunction
from ..targets.family import Dialect
from ..targets.target import Target, binding
from .contraction import contraction, product_grid
from .kept import without_kept
from .lowering import lower
from .ptxas import Assembled, assemble
from .schedule import Grid, LaunchNumber, grid, turned


@dataclass(frozen=True)
class DeviceKernel:
    """A nest lowered for a GPU; made by `device_kernel`."""

    nest: Nest
    """The nest; without kept values, unless they stay in shared memory."""
    loops: Loops
    grid: Grid
    """The blocks and threads that it is launched with."""
    function: LoweredFunction
    target: Target

    @property
    def name(self) -> str:
        """The name of the entry in the PTX."""
        return self.nest.name

    @property
    def llvm_ir(self) -> str:
        """The LLVM IR as it was generated, before LLVM's passes."""
        return self.function.text(self.name, self.nest.comments)

    @cached_property
    def assembly(self) -> str:
        """LLVM's text; its parameters are the addresses of the buffers, of `geometry`, and of the errors (i32)."""
        mark = self.target.family.dialect.comment  # type: ignore[union-attr]
        lines = "".join(f"{mark} {line}\n" for comment in self.nest.comments for line in comment.splitlines())
        return lines + _compiled(self.llvm_ir, self.target)

    @property
    def ptx(self) -> str:
        """The assembly of an NVIDIA GPU; CompileError for others."""
        if not self.target.triple.startswith("nvptx"):
            raise CompileError(f"{self.target.cpu} takes no PTX; see `assembly`")
        return self.assembly

    @property
    def numbers(self) -> list[LaunchNumber]:
        """The numbers that it is launched with, in the order in which it reads them."""
        own, function = self.grid.numbers, self.function
        others = replace(function, numbers=tuple(name for name in function.numbers if name not in own))
        rest = iter(geometry_of(self.nest, self.loops, others))
        return [own[name] if name in own else next(rest) for name in function.numbers]

    @property
    def geometry(self) -> Any:
        """The same as ctypes' int64 array: the second parameter, by value."""
        return words_of(self.numbers)  # type: ignore[arg-type]

    def assemble(self) -> Assembled:
        """The machine code that ptxas makes of the PTX, see `ptxas.assemble`."""
        return assemble(self.ptx, self.target.cpu)


def device_kernel(nest: Nest, target: Target, multiprocessors: int | None = None) -> DeviceKernel:
    """Lower `nest` for a GPU such as `Target.nvidia("sm_80")`, with so many multiprocessors if that is known.

    Their number decides on the blocks that are launched, not on the code or the results. Raises CompileError if the
    body asks for something that kernels do not have, or the nest has no points.

    >>> import numpy as np
    >>> from jit.runtime.kernels.nest import pointwise_nest
    >>> x = np.zeros(1000, np.float32)
    >>> kernel = device_kernel(pointwise_nest(lambda m, a: m.exp(a), [x], [x], name="exps"), Target.nvidia("sm_80"))
    >>> kernel.grid.kind, kernel.grid.blocks, kernel.grid.threads, kernel.grid.side, kernel.grid.vectors
    ('points', 1, 256, 4, 4)
    >>> ".entry exps(" in kernel.ptx
    True
    """
    dialect = target.family.dialect
    if dialect is None:
        raise CompileError(
            f"{target.triple} is not a GPU: choose one with Target.nvidia('sm_80') or Target.amdgpu(...)"
        )
    if 0 in nest.extents:
        raise CompileError(f"{nest.name}: a nest without points has nothing to launch; leave it out")
    loops, chosen = _scheduled(nest, target, dialect, multiprocessors)
    if not chosen.capacity:
        nest = without_kept(nest)
        loops, chosen = _scheduled(nest, target, dialect, multiprocessors)
    return DeviceKernel(nest, loops, chosen, lower(nest, loops, chosen, target), target)


def _scheduled(nest: Nest, target: Target, dialect: Dialect, multiprocessors: int | None) -> tuple[Loops, Grid]:
    loops, count = turned(nest, schedule(nest)), multiprocessors or dialect.multiprocessors
    product = contraction(nest, loops) if dialect.tiles(target.cpu) else None
    return loops, product_grid(product, loops, count) if product else grid(nest, loops, dialect, count)


def _compiled(text: str, target: Target) -> str:
    """LLVM's assembly of a module, after passes that fold, combine and move the status into a register."""
    llvm, machine = binding(), _machine(target)
    try:
        head = f'target datalayout = "{machine.target_data}"\ntarget triple = "{target.triple}"\n'
        module = llvm.parse_assembly(head + text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"the kernel's LLVM IR is malformed: {error}; run it on the CPU") from error
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    undefined = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    if undefined:
        raise CompileError(f"the kernel calls {undefined[0]!r}, which a GPU does not have; run it on the CPU")
    return str(machine.emit_assembly(module))


@cache
def _machine(target: Target) -> Any:
    return target.machine()
