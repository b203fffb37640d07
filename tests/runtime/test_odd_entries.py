"""What stands where an entry of the cache should, and memory that is not to be had."""

import gc
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jit.ir.errors import CompileError
from jit.runtime.arrays import blocks
from jit.runtime.kernels.cache import DiskCache
from jit.runtime.targets import target


def link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(path.parent)  # names of sockets are short
        try:
            server.bind(path.name)
        finally:
            os.chdir(here)


def long_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole: it takes no room


ODD: dict[str, Any] = {
    "pipe": os.mkfifo, "folder": Path.mkdir, "socket": listen, "link to a device": link,
    "link to nowhere": lambda path: path.symlink_to(path.parent / "nowhere"), "empty file": Path.touch,
    "endless file": long_file, "unreadable file": lambda path: path.touch(0),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_entry_is_not_waited_for(kind, tmp_path):
    cache = DiskCache(tmp_path / "cache", 1 << 20)
    path = cache.folder / "entry"
    ODD[kind](path)
    found: list = []
    reader = threading.Thread(target=lambda: found.append(cache.load("entry")), daemon=True)
    reader.start()
    reader.join(10)
    assert found == [None]
    cache.store("entry", b"data")
    assert cache.load("entry") == (None if kind == "folder" else b"data")


def test_a_block_that_got_no_memory_is_gone_in_silence(monkeypatch):
    heard: list = []
    monkeypatch.setattr(sys, "unraisablehook", heard.append)

    def none_left(size):
        raise MemoryError(size)

    monkeypatch.setattr(blocks._pool, "take", none_left)
    with pytest.raises(MemoryError):
        blocks.empty((1 << 24,), np.dtype(np.float32))
    gc.collect()
    assert not heard


def test_a_library_that_does_not_fit_into_memory_is_a_memory_error(monkeypatch):
    import llvmlite.binding

    def no_room():
        raise OSError("Could not find/load shared object file") from OSError("failed to map segment")

    monkeypatch.setattr(llvmlite.binding, "initialize_native_target", no_room)
    with pytest.raises(MemoryError, match=r"LLVM could not be loaded.*failed to map") as found:
        target.binding.__wrapped__()
    assert isinstance(found.value, CompileError)
