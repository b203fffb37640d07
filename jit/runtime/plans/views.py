"""Compiled kernels as people see them: the user's lines, the code, and the work of a call."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jit.ir import Graph, Node, TensorType, Value, find
from jit.ir.errors import Error
from jit.ir.files import write_atomically

from ..arrays.programs import Engine
from ..kernels.codegen import Kernel
from ..kernels.work import NestUse
from .places import Step
from .stretch_code import StretchCode


@dataclass(frozen=True)
class KernelView:
    """One compiled kernel of a traced function."""

    name: str
    """A name that is made of the operators that it computes."""
    source_lines: tuple[str, ...]
    """The user's lines that it computes, such as `model.py:12 in forward`."""
    bytes: int
    """The least number of bytes that a call reads and writes."""
    flops: int
    """The number of operators at elements that a call computes."""
    calls: int
    """The number of calls in a run of the function."""
    stage: int
    """0 in the forward, 1 in the backward, ..."""
    kernel: Kernel

    @property
    def llvm_ir(self) -> str:
        """The LLVM IR as it was generated, before LLVM's passes; it opens with the user's lines."""
        return self.kernel.code.function.text(self.name, self.source_lines)

    @property
    def asm(self) -> str:
        """The machine code as assembly."""
        return "".join(f"# {line}\n" for line in self.source_lines) + self.kernel.asm

    @property
    def ptx(self) -> str:
        """The PTX of the same loops for an NVIDIA GPU (sm_80)."""
        from ..gpu.device import device_kernel
        from ..targets.target import Target

        return device_kernel(self.kernel.nest, Target.nvidia("sm_80")).ptx

    def __repr__(self) -> str:
        times = f", {self.calls} calls" if self.calls > 1 else ""
        lines = "; ".join(self.source_lines)
        return f"<kernel {self.name}: {self.bytes} bytes, {self.flops} flops{times}; {lines}>"


def kernels_of(engine: Engine) -> list[KernelView]:
    """The kernels of a plan in the order of their first calls; an engine without native code has none."""
    codes = [(stage, code) for stage, natives in enumerate(engine.natives) for n in natives for code in n.codes]
    return [view for stage, code in codes for view in _views(code, stage)]


def _views(code: StretchCode, stage: int) -> Iterator[KernelView]:
    uses: dict[int, list[tuple[Step, NestUse]]] = {}
    for step in code.lowering.steps:
        for use in step.work.nests:
            uses.setdefault(id(use.nest), []).append((step, use))
    kernels = {id(kernel.nest): kernel for kernel in code.kernels}
    for number, pairs in uses.items():
        kernel, (step, use) = kernels[number], pairs[0]
        lines = tuple(dict.fromkeys(line for step, _ in pairs for line in lines_of(step.node)))
        flops, calls = round(use.share * _flops_of_parts(step.node)), sum(use.calls for _, use in pairs)
        yield KernelView(kernel.name, lines, kernel.nest.nbytes, flops, calls=calls, stage=stage, kernel=kernel)


# -- lines and work ----------------------------------------------------------------------------------------------


def parts_of(node: Node) -> list[Node]:
    """The nodes in a fusion group; any other node alone."""
    body = node.attributes.get("body")
    return list(body.nodes) if node.kind == "prim::FusionGroup" and isinstance(body, Graph) else [node]


def lines_of(node: Node) -> list[str]:
    """The user's lines behind a node, each once."""
    return list(dict.fromkeys(str(part.source) for part in parts_of(node) if part.source is not None))


def work_of_step(step: Step) -> tuple[int, int]:
    """Bytes that a step moves and flops that it computes."""
    operands = step.operands[: len(step.operands) - step.scratch]
    nbytes = sum(place.geometry.numel * place.dtype.itemsize for place in operands)
    return step.work.moved_bytes(nbytes), step.work.flops(*map(_flops_of_parts, step.nodes))


def _flops_of_parts(node: Node) -> int:
    return sum(map(flops_of, parts_of(node)))


def work_of_node(node: Node) -> tuple[int, int]:
    """Bytes that a node by itself moves and flops that it computes."""
    return sum(_numel(v) * _itemsize(v) for v in (*dict.fromkeys(node.inputs), *node.outputs)), flops_of(node)


def flops_of(node: Node) -> int:
    """One for each element that an operator computes or reduces, two for each term of a product, none for copies."""
    op, known = find(node.kind), all(map(_is_known, (*node.inputs, *node.outputs[:1])))
    if op is None or not node.outputs or op.kind == "view" or op.kernel.moves:
        return 0
    if op.kernel.flops is not None:
        values = op.join(node.operands, {k: node.resolve(v) for k, v in node.attributes.items()})
        types = [value.type if isinstance(value, Value) else value for value in values]
        return int(op.ask(op.kernel.flops, types, _first_type(node))) if known else 0
    if op.kind == "pointwise":
        return _numel(node.outputs[0])
    return max(map(_numel, (*node.inputs, *node.outputs)))


def _is_known(value: Value) -> bool:
    return not isinstance(value.type, TensorType) or value.type.sizes is not None


def _first_type(node: Node) -> TensorType:
    """The type of the first result that there is."""
    return next(value.type for value in node.outputs if isinstance(value.type, TensorType))


def _numel(value: Value) -> int:
    known = isinstance(value.type, TensorType) and value.type.sizes is not None
    return int(value.type.numel) if known else 0  # type: ignore[attr-defined]


def _itemsize(value: Value) -> int:
    dtype = getattr(value.type, "dtype", None)
    return 0 if dtype is None else int(dtype.itemsize)


# -- dumps -------------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_written: dict[Path, int] = {}


def dump(engine: Engine, folder: str | os.PathLike[str]) -> None:
    """Write `kernel0-add_tanh.ll` and `kernel0-add_tanh.s` for every kernel; the numbers go on from plan to plan."""
    path = Path(folder).absolute()
    for view in kernels_of(engine):
        with _lock:
            number = _written[path] = _written.get(path, -1) + 1
        try:
            write_atomically(path / f"kernel{number}-{view.name}.ll", view.llvm_ir)
            write_atomically(path / f"kernel{number}-{view.name}.s", view.asm)
        except Error as error:
            raise Error(f"JIT_DUMP: {error}, or unset it") from error
