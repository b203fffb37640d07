"""The linker of our own: what it puts into memory runs as what LLVM's does; what it does not know, it leaves."""

import ctypes
import math
import os
import struct
import subprocess
import sys

import pytest

from jit.runtime.kernels import code_store, linking
from jit.runtime.llvm.math import PREFIX
from jit.runtime.targets.target import Target

pytestmark = [
    pytest.mark.llvm,
    pytest.mark.skipif(not linking.available(), reason="object files of another kind than x86-64 Linux has"),
]

MODULE = f"""
declare double @"{PREFIX}cbrt"(double)
@table = private constant [4 x double] [double 1.0, double 8.0, double 27.0, double 64.0]

define double @root(i64 %i) {{
%at = getelementptr [4 x double], ptr @table, i64 0, i64 %i
%x = load double, ptr %at
%y = call double @"{PREFIX}cbrt"(double %x)
%z = fmul double %y, 0.1
ret double %z
}}

define i64 @choice(i64 %i) {{
switch i64 %i, label %other [ i64 0, label %a i64 1, label %b i64 2, label %c i64 3, label %d i64 4, label %e ]
a: ret i64 17
b: ret i64 4
c: ret i64 99
d: ret i64 1000
e: ret i64 5
other: ret i64 -1
}}
"""


@pytest.fixture(scope="module")
def image():
    return code_store.STORE.object_file(MODULE, Target.host())


def imports():
    return {PREFIX + "cbrt": code_store._c_function("cbrt")}


def test_constants_jumps_and_calls_are_where_the_code_looks_for_them(image):
    addresses, memory = linking.link(image, imports())
    root = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(addresses["root"])
    choice = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(addresses["choice"])
    assert [root(i) for i in range(4)] == [math.cbrt(n) * 0.1 for n in (1, 8, 27, 64)]
    assert [choice(i) for i in (0, 1, 2, 3, 4, 5, -7)] == [17, 4, 99, 1000, 5, -1, -1]
    del memory


def test_it_does_as_the_linker_of_llvm(image, monkeypatch):
    names = ["root", "choice"]
    ours, keep = code_store.STORE.link(image, names, imports(), Target.host())
    monkeypatch.setattr(linking, "available", lambda: False)
    theirs, others = code_store.STORE.link(image, names, imports(), Target.host())
    kinds = [ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64), ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)]
    for name, kind in zip(names, kinds, strict=True):
        first, second = (kind(table[name]) for table in (ours, theirs))
        assert [first(i) for i in range(4)] == [second(i) for i in range(4)]
    assert keep is not others


def test_a_function_that_nobody_has_is_not_linked(image):
    with pytest.raises(linking.Unlinkable, match="cbrt is not there"):
        linking.link(image, {})


def test_what_is_no_object_file_is_not_linked():
    for data in (b"", b"\x7fELF", b"MZ" + bytes(100)):
        with pytest.raises(linking.Unlinkable, match="no ELF file"):
            linking.link(data, {})


def test_relocations_of_unknown_kinds_are_not_linked(image):
    sections = linking._tables(image)[0]
    table = next(s for s in sections if s.type == 4)
    changed = bytearray(image)
    struct.pack_into("<I", changed, table.offset + 8, 250)
    with pytest.raises(linking.Unlinkable, match="relocation of kind 250"):
        linking.link(bytes(changed), imports())


def test_code_is_never_writable(image):
    addresses, memory = linking.link(image, imports())
    with open("/proc/self/maps", encoding="utf-8") as file:
        rows = [line.split()[:2] for line in file]
    bounds = [[int(number, 16) for number in place.split("-")] for place, _ in rows]
    found = [rights for (low, high), (_, rights) in zip(bounds, rows, strict=True) if low <= addresses["root"] < high]
    assert found == ["r-xp"] or found == ["r-xs"]
    assert len(memory) > 0


def test_a_process_that_finds_its_kernels_does_not_load_llvm(tmp_path):
    program = (
        "import sys, jit\nf = jit.trace(lambda x: jit.softmax(x.tanh(), -1))\n"
        "for _ in range(3): y = f(jit.arange(6.).reshape(2, 3))\nprint('llvmlite.binding' in sys.modules, f.hits)"
    )
    environment = {**os.environ, "JIT_CACHE": str(tmp_path / "cache")}
    environment.pop("JIT_DUMP", None)
    texts = [subprocess.check_output([sys.executable, "-c", program], env=environment, text=True) for _ in range(2)]
    assert texts == ["True 2\n", "False 2\n"]
