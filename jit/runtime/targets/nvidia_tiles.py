"""The instructions of NVIDIA's GPUs for tiles of matrices: copies to shared memory, and products by tensor cores."""

from __future__ import annotations

from collections.abc import Sequence

from ..llvm.build import LLVMBuilder, Register


class NvidiaTiles:
    """The instructions from sm_80 on: `cp.async`, `ldmatrix` and `mma.sync`."""

    def copy(self, builder: LLVMBuilder, target: Register, source: Register, count: Register, size: int) -> None:
        """Begin to copy `count` bytes (i32) to `size` bytes of shared memory, 4, 8 or 16; the rest become zeros."""
        there = builder.emit("ptr addrspace(1)", f"addrspacecast {source} to ptr addrspace(1)", source)
        name = f"llvm.nvvm.cp.async.{'cg' if size == 16 else 'ca'}.shared.global.{size}.s"
        builder.declarations[name] = f"declare void @{name}(ptr addrspace(3), ptr addrspace(1), i32)"
        builder.write(f"call void @{name}({target}, {there}, {count})", builder.depth)

    def commit(self, builder: LLVMBuilder) -> None:
        """Copies begun so far are one group."""
        self._call(builder, "llvm.nvvm.cp.async.commit.group")

    def wait(self, builder: LLVMBuilder, later: int) -> None:
        """Wait for all groups of copies but the last `later` ones."""
        self._call(builder, "llvm.nvvm.cp.async.wait.group", later)

    def _call(self, builder: LLVMBuilder, name: str, *numbers: int) -> None:
        builder.declarations[name] = f"declare void @{name}({', '.join('i32' for _ in numbers)})"
        arguments = ", ".join(f"i32 {number}" for number in numbers)
        builder.write(f"call void @{name}({arguments})", builder.depth)

    def anew(self, builder: LLVMBuilder, register: Register) -> Register:
        """A number or an address of which the compiler does not know that it is the same in each turn of a loop."""
        result = Register(f"%{builder.name()}", register.type, builder.depth)
        move = f'asm sideeffect "mov.b64 $0, $1;", "=l,l"({register})'
        builder.write(f"{result.text} = call {result.type} {move}", builder.depth)
        return result

    def matrices(self, builder: LLVMBuilder, address: Register, transposed: bool) -> list[Register]:
        """Four matrices of 8 x 8 elements of 16 bits, an i32 of each for every lane."""
        type = "{ i32, i32, i32, i32 }"
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{'.trans' if transposed else ''}.b16.p3"
        builder.declarations[name] = f"declare {type} @{name}(ptr addrspace(3))"
        all = Register(f"%{builder.name()}", type, builder.depth)
        builder.write(f"{all.text} = call {type} @{name}({address})", builder.depth)
        return [builder.emit("i32", f"extractvalue {all}, {number}", all) for number in range(4)]

    def product(
        self, builder: LLVMBuilder, a: Sequence[Register], b: Sequence[Register], sums: Sequence[Register],
        is_float16: bool,
    ) -> list[Register]:  # fmt: skip
        """The sums (float32) with the product of 16 x 16 elements of float16, or bfloat16, by 16 x 8."""
        type, kind = "{ float, float, float, float }", "bf16"
        if is_float16:
            kind = "f32.f32"
            a, b = ([builder.emit("<2 x half>", f"bitcast {r} to <2 x half>", r) for r in each] for each in (a, b))
        all = builder.call(type, f"llvm.nvvm.mma.m16n8k16.row.col.{kind}", *a, *b, *sums)
        return [builder.emit("float", f"extractvalue {all}, {number}", all) for number in range(4)]


def tiles_of(processor: str) -> NvidiaTiles | None:
    """The instructions that a processor such as "sm_90a" has; None before sm_80."""
    return NvidiaTiles() if int(processor.removeprefix("sm_").rstrip("af")) >= 80 else None
