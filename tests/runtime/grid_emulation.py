"""Runs a GPU's kernel on the CPU: the same LLVM IR, one thread of this machine for each thread of a block.

What only a GPU has is replaced in the text: the thread's numbers become arguments, shared memory a global array,
barriers and shuffles functions at which the threads of a block meet. Blocks run one after the other. So indices, tails,
trees and tiles are tested where there is no GPU; that PTX means what its LLVM IR means is left to LLVM.
"""

from __future__ import annotations

import ctypes
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from jit.runtime.gpu.device import DeviceKernel, device_kernel
from jit.runtime.kernels.codegen import check_status
from jit.runtime.kernels.nest import Nest
from jit.runtime.targets.target import Target, binding

Array = np.ndarray[Any, Any]

GPU = Target.nvidia("sm_80")
AMD = Target.amdgpu("gfx942")

SHUFFLE = """
define internal i32 @shuffle_WAY(i32 %tid, i32 %value, i32 %lanes, i32 %tail) {
  %slot = getelementptr i32, ptr @exchange, i32 %tid
  store i32 %value, ptr %slot
  call void @meet()
  %segment = lshr i32 %tail, 8
  %lane = and i32 %tid, 31
  %warp = and i32 %tid, -32
  %first = and i32 %lane, %segment
  %inverse = xor i32 %segment, 31
  %last = or i32 %first, %inverse
  %to = SOURCE
  %ahead = icmp sge i32 %to, %first
  %below = icmp sle i32 %to, %last
  %valid = and i1 %ahead, %below
  %other = add i32 %warp, %to
  %source = select i1 %valid, i32 %other, i32 %tid
  %from = getelementptr i32, ptr @exchange, i32 %source
  %result = load i32, ptr %from
  call void @meet()
  ret i32 %result
}
"""
PERMUTE = """
define internal i32 @permuted(i32 %tid, i32 %threads, i32 %place, i32 %value) {
  %slot = getelementptr i32, ptr @exchange, i32 %tid
  store i32 %value, ptr %slot
  call void @meet()
  %quarter = lshr i32 %place, 2
  %lane = and i32 %quarter, 63
  %wave = and i32 %tid, -64
  %other = add i32 %wave, %lane
  %from = getelementptr i32, ptr @exchange, i32 %other
  %result = load i32, ptr %from
  call void @meet()
  ret i32 %result
}
"""
COPY = """
define internal void @copied_SIZE(ptr %to, ptr %from, i32 %count) {
  call void @llvm.memset.p0.i32(ptr %to, i8 0, i32 SIZE, i1 false)
  call void @llvm.memcpy.p0.p0.i32(ptr %to, ptr %from, i32 %count, i1 false)
  ret void
}
"""
"""A copy that runs beside the threads, at once."""
DRIVER = """
@exchange = internal global [1024 x i32] zeroinitializer
@members = global i32 1
@lost = global i32 0
@arrived = internal global i32 0
@round = internal global i32 0
declare i32 @sched_yield()
define internal void @meet() {
entry:
  %threads = load i32, ptr @members
  %now = load atomic i32, ptr @round seq_cst, align 4
  %before = atomicrmw add ptr @arrived, i32 1 seq_cst
  %mine = add i32 %before, 1
  %all = icmp eq i32 %mine, %threads
  br i1 %all, label %release, label %wait
release:
  store atomic i32 0, ptr @arrived seq_cst, align 4
  %next = add i32 %now, 1
  store atomic i32 %next, ptr @round seq_cst, align 4
  ret void
wait:
  %turn = phi i32 [ 0, %entry ], [ %following, %wait ]
  %following = add i32 %turn, 1
  %yielded = call i32 @sched_yield()
  %seen = load atomic i32, ptr @round seq_cst, align 4
  %same = icmp eq i32 %seen, %now
  %patient = icmp ult i32 %turn, 30000000
  %again = and i1 %same, %patient
  br i1 %again, label %wait, label %leave
leave:
  %missed = zext i1 %same to i32
  store i32 %missed, ptr @lost
  ret void
}
define void @thread(ptr %data, ptr %geometry, ptr %errors, i32 %tid, i32 %threads, i32 %blocks) {
entry:
  br label %loop
loop:
  %block = phi i32 [ 0, %entry ], [ %next, %loop ]
  call void @kernel(ptr %data, ptr %geometry, ptr %errors, i32 %tid, i32 %block, i32 %threads)
  call void @meet()
  %next = add i32 %block, 1
  %more = icmp slt i32 %next, %blocks
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""
SOURCES = {"down": "add i32 %lane, %lanes", "up": "sub i32 %lane, %lanes", "idx": "add i32 %lanes, %first"}
THREAD = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int32] * 3)


def emulated(nest: Nest, inputs: list[Array], outputs: list[Array], target: Target = GPU) -> DeviceKernel:
    """Fill `outputs` by the nest's GPU kernel; raises the error that it reports."""
    kernel = device_kernel(nest, target)
    launch(kernel, inputs, outputs)
    return kernel


def launch(kernel: DeviceKernel, inputs: list[Array], outputs: list[Array]) -> None:
    """Run all blocks."""
    threads, alone = kernel.grid.threads, kernel.grid.kind == "points"
    rewritten = amd_text if kernel.target.family.name == "amdgpu" else cpu_text
    engine = _engine(rewritten(kernel.function.text()))
    members, lost = (ctypes.c_int32.from_address(engine.get_global_value_address(n)) for n in ("members", "lost"))
    members.value = 1 if alone else threads
    function = THREAD(engine.get_function_address("thread"))
    arrays = [*inputs, *outputs]
    data = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    errors = ctypes.c_int32(0)

    def run(thread: int) -> None:
        function(data, kernel.geometry, ctypes.addressof(errors), thread, threads, kernel.grid.blocks)

    with ThreadPoolExecutor(1 if alone else threads) as pool:
        list(pool.map(run, range(threads)))
    assert not lost.value, "some threads wait at a barrier that others never reach"
    check_status(errors.value)


def cpu_text(text: str) -> str:
    """The module with what only a GPU has replaced."""
    text = re.sub(
        r"define ptx_kernel void @(\w+)\(ptr byval.*\) .*{",
        r"define void @\1(ptr %data, ptr %geometry, ptr %errors, i32 %tid, i32 %block, i32 %threads) {",
        text,
    )
    text = text.replace("call i32 @llvm.nvvm.read.ptx.sreg.tid.x()", "add i32 %tid, 0")
    text = text.replace("call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()", "add i32 %block, 0")
    text = text.replace("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)", "call void @meet()")
    text = text.replace(" addrspace(3)", "").replace("poison, align 16", "zeroinitializer, align 16")
    shuffle = r"call i32 @llvm\.nvvm\.shfl\.sync\.(\w+)\.i32\(i32 -?\d+, ([^,]+), ([^,]+), i32 (\d+)\)"
    text = re.sub(shuffle, r"call i32 @shuffle_\1(i32 %tid, \2, \3, i32 \4)", text)
    text = re.sub(r"call void @llvm\.nvvm\.cp\.async\.c.\.shared\.global\.(\d+)\.s", r"call void @copied_\1", text)
    text = re.sub(r"call void @llvm\.nvvm\.cp\.async\.(commit|wait)\.group\(.*\)", "", text)
    text = re.sub(r"addrspacecast (.*) to ptr addrspace\(1\)", r"getelementptr i8, \1, i64 0", text)
    text = text.replace(" addrspace(1)", "")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("declare") or "nvvm" not in line)
    assert "nvvm" not in text
    shuffles = (SHUFFLE.replace("WAY", way).replace("SOURCE", source) for way, source in SOURCES.items())
    return text + DRIVER + "".join(shuffles) + "".join(COPY.replace("SIZE", str(size)) for size in (4, 8, 16))


def amd_text(text: str) -> str:
    """The same for AMD's GPUs."""
    text = re.sub(
        r"define amdgpu_kernel void @(\w+)\(.*\) .*{",
        r"define void @\1(ptr %data, ptr %geometry, ptr %errors, i32 %tid, i32 %block, i32 %threads) {",
        text,
    )
    text = re.sub(r"%(data|geometry) = addrspacecast .*\n", "", text)
    text = text.replace("%status.own = alloca i32, addrspace(5)\n", "%status = alloca i32\n")
    text = re.sub(r"%status = addrspacecast .*\n", "", text)
    text = text.replace("call i32 @llvm.amdgcn.workitem.id.x()", "add i32 %tid, 0")
    text = text.replace("call i32 @llvm.amdgcn.workgroup.id.x()", "add i32 %block, 0")
    text = text.replace("call void @llvm.amdgcn.s.barrier()", "call void @meet()")
    text = text.replace(" addrspace(3)", "").replace("poison, align 16", "zeroinitializer, align 16")
    permute = r"call i32 @llvm\.amdgcn\.ds\.bpermute\(([^,]+), ([^)]+)\)"
    text = re.sub(permute, r"call i32 @permuted(i32 %tid, i32 %threads, \1, \2)", text)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("declare") or "amdgcn" not in line)
    assert "amdgcn" not in text
    return text + DRIVER + PERMUTE


def _engine(text: str) -> Any:
    llvm = binding()
    module = llvm.parse_assembly(text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, Target.host().machine())
    engine.finalize_object()
    return engine
