"""The cache on disk: what is stored comes back, what was tampered with does not, and nothing is ever raised."""

import contextlib
import errno
import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jit.runtime.kernels import cache as caching
from jit.runtime.kernels.cache import DiskCache, digest


def test_what_is_stored_comes_back_in_another_process(tmp_path):
    DiskCache(tmp_path / "c", 1000).store("name", b"data")
    program = "import sys, pathlib; from jit.runtime.kernels.cache import DiskCache; "
    program += "print(DiskCache(pathlib.Path(sys.argv[1]), 1000).load('name'))"
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "c")], capture_output=True, text=True)
    assert done.stdout.strip() == "b'data'", done.stderr
    assert DiskCache(tmp_path / "c", 1000).load("other") is None


def test_every_flipped_bit_is_noticed_and_the_entry_dropped(tmp_path):
    kept = DiskCache(tmp_path, 1000)
    kept.store("name", b"code")
    whole = (tmp_path / "name").read_bytes()
    for place in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        (tmp_path / "name").write_bytes(bytes(flipped))
        assert kept.load("name") is None
        assert not (tmp_path / "name").exists()


@pytest.mark.parametrize("size", [0, 5, 43, 44, 45])
def test_torn_entries_are_noticed(tmp_path, size):
    kept = DiskCache(tmp_path, 1000)
    kept.store("name", b"code")
    whole = (tmp_path / "name").read_bytes()
    (tmp_path / "name").write_bytes(whole[:size])
    assert kept.load("name") is None


def test_entries_under_another_name_or_secret_are_foreign(tmp_path):
    ours, theirs = DiskCache(tmp_path / "ours", 1000), DiskCache(tmp_path / "theirs", 1000)
    ours.store("name", b"code")
    whole = (tmp_path / "ours" / "name").read_bytes()
    (tmp_path / "ours" / "other").write_bytes(whole)
    (tmp_path / "theirs" / "name").write_bytes(whole)
    assert ours.load("other") is None
    assert theirs.load("name") is None
    assert ours.load("name") == b"code"


def test_the_least_recently_used_go_first(tmp_path):
    kept = DiskCache(tmp_path, 2000)
    for index in range(4):
        kept.store(f"n{index}", bytes(400))
        os.utime(tmp_path / f"n{index}", ns=(index, index))
    assert kept.load("n0") is not None  # used just now
    kept.store("n4", bytes(400))
    assert kept.load("n0") is not None
    assert kept.load("n1") is None
    assert kept.load("n4") is not None
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) <= 2100


def test_many_small_entries_are_looked_over_seldom_and_stay_within_the_size(tmp_path, monkeypatch):
    swept: list[int] = []
    sweep = DiskCache._sweep

    def counted(kept: DiskCache) -> None:
        swept.append(1)
        sweep(kept)

    monkeypatch.setattr(DiskCache, "_sweep", counted)
    kept = DiskCache(tmp_path, 1_000_000)
    for index in range(3000):
        kept.store(digest([str(index)]), bytes(500))
    assert 50 <= len(swept) <= 400  # 1.5 MB were written: 150 are expected
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1_150_000


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path):
    kept = DiskCache(tmp_path, 100)
    kept.store("name", bytes(200))
    assert kept.load("name") is None


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_open_to_others_is_not_used(tmp_path, mode):
    folder = tmp_path / "c"
    folder.mkdir()
    folder.chmod(mode)
    kept = DiskCache(folder, 1000)
    kept.store("name", b"data")
    assert not kept.usable
    assert kept.load("name") is None


def test_a_secret_that_others_may_write_is_not_used(tmp_path):
    assert DiskCache(tmp_path, 1000).usable
    (tmp_path / "secret").chmod(0o666)
    assert not DiskCache(tmp_path, 1000).usable


def test_an_impossible_folder_is_no_cache(tmp_path):
    (tmp_path / "file").write_text("")
    kept = DiskCache(tmp_path / "file" / "folder", 1000)
    kept.store("name", b"data")
    assert kept.load("name") is None


def test_a_folder_that_vanishes_does_no_harm(tmp_path):
    kept = DiskCache(tmp_path / "c", 1000)
    (tmp_path / "c" / "secret").unlink()
    (tmp_path / "c").rmdir()
    kept.store("name", b"data")
    assert kept.load("name") is None


def test_many_writers_at_once_agree_on_one_secret(tmp_path):
    def write(index: int) -> bytes | None:
        kept = DiskCache(tmp_path / "c", 10_000_000)
        kept.store(f"n{index % 4}", bytes([index % 4]) * 1000)
        return kept.load(f"n{index % 4}")

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(write, range(64)))
    assert found == [bytes([index % 4]) * 1000 for index in range(64)]
    assert not [p for p in (tmp_path / "c").iterdir() if p.name.startswith(".")]


def test_different_parts_have_different_names():
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest(["a"]) == digest(["a"])


@pytest.mark.parametrize("value", ["off", "0", "None"])
def test_the_environment_switches_it_off(monkeypatch, value):
    monkeypatch.setenv("JIT_CACHE", value)
    caching.shared.cache_clear()
    assert caching.shared() is None
    caching.shared.cache_clear()


def test_the_environment_says_where_and_how_large(monkeypatch, tmp_path):
    monkeypatch.setenv("JIT_CACHE", str(tmp_path / "here"))
    monkeypatch.setenv("JIT_CACHE_MB", "3")
    caching.shared.cache_clear()
    found = caching.shared()
    assert found is not None
    assert (found.folder, found.limit) == (Path(tmp_path / "here"), 3_000_000)
    caching.shared.cache_clear()


# -- turns -------------------------------------------------------------------------------------------------------

HOLDER = """
import pathlib, sys, time
from jit.runtime.kernels.cache import DiskCache
kept = DiskCache(pathlib.Path(sys.argv[1]), 10000)
with kept.turn("name"):
    print("mine", flush=True)
    sys.stdin.readline()
    kept.store("name", b"made")
"""


def holder(folder):
    """A process whose turn it is, until it is told to store the entry."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "mine\n"
    return process


def test_who_waits_for_an_entry_finds_it(tmp_path):
    kept, other = DiskCache(tmp_path, 10_000), holder(tmp_path)
    with kept.turn("another name"):  # nobody is waited for
        assert kept._patience == caching._PATIENCE
    threading.Timer(0.2, lambda: other.communicate("\n")).start()
    with kept.turn("name"):
        assert kept.load("name") == b"made"
    assert 0 < caching._PATIENCE - kept._patience < 20


def test_the_turn_of_a_process_that_is_killed_is_over(tmp_path):
    kept, other = DiskCache(tmp_path, 10_000), holder(tmp_path)
    threading.Timer(0.2, other.kill).start()
    with kept.turn("name"):
        assert kept.load("name") is None and kept._patience > 0
    other.communicate()


def test_a_process_that_is_stopped_is_not_waited_for_for_ever(tmp_path):
    kept, other = DiskCache(tmp_path, 10_000), holder(tmp_path)
    os.kill(other.pid, signal.SIGSTOP)
    try:
        kept._patience = 0.1
        for _ in range(2):
            with kept.turn("name"):
                assert kept._patience <= 0
    finally:
        other.kill()
        other.communicate()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EIO, errno.EINTR])
def test_a_file_system_without_locks_is_none_the_worse(tmp_path, monkeypatch, number):
    def refuse(*args: object) -> None:
        raise OSError(number, "no locks")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    kept = DiskCache(tmp_path, 1000)
    with kept.turn("name"):
        kept.store("name", b"data")
    assert kept.load("name") == b"data" and kept._patience == caching._PATIENCE


def test_a_turn_ends_with_its_block_however_that_ends(tmp_path):
    kept = DiskCache(tmp_path, 1000)
    with pytest.raises(OSError, match="of the block"), kept.turn("name"):
        raise OSError("of the block")
    with kept.turn("other"), kept.turn("name"):
        pass
    other = holder(tmp_path)
    other.communicate("\n")
    assert kept.load("name") == b"made"
    (tmp_path / "secret").unlink()
    with kept.turn("name"):
        pass
    assert kept._patience == caching._PATIENCE


def test_a_turn_within_another_one_leaves_that_alone(tmp_path):
    kept = DiskCache(tmp_path, 10_000)
    with ThreadPoolExecutor(1) as pool:
        with kept.turn("name"):
            with kept.turn("inner"):
                kept.store("inner", b"data")
            command = [sys.executable, "-c", HOLDER, str(tmp_path)]
            other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert other.stdout is not None
            line = pool.submit(other.stdout.readline)
            time.sleep(0.5)
            assert not line.done()
        assert line.result(timeout=60) == "mine\n"
    other.communicate("\n")


# -- machine code ------------------------------------------------------------------------------------------------

PROGRAM = """
import jit
from jit.runtime.kernels import code_store

@jit.trace
def f(x):
    return jit.softmax(x.tanh() * 2, -1), (x + 1).sum(0)

x = jit.arange(12.0).reshape(3, 4)
for _ in range(2):
    results = f(x)
print(code_store.STORE.compilations, [r.numpy().tobytes().hex() for r in results])
"""


def started(folder, **options):
    """A process that compiles and runs a function, with its cache in `folder`."""
    environment = {**os.environ, "JIT_CACHE": str(folder)}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **options)


def outcome(process):
    """How many modules it has compiled, and the bits of its results."""
    text, _ = process.communicate()
    assert process.returncode == 0
    count, _, bits = text.partition(" ")
    return int(count), bits


@pytest.mark.llvm
def test_a_second_process_compiles_nothing(tmp_path):
    count, bits = outcome(started(tmp_path / "c"))
    assert count > 0
    assert outcome(started(tmp_path / "c")) == (0, bits)
    assert outcome(started("off")) == (count, bits)


@pytest.mark.llvm
def test_tampered_machine_code_is_compiled_again(tmp_path):
    count, bits = outcome(started(tmp_path))
    entries = [path for path in tmp_path.iterdir() if path.name != "secret"]
    assert len(entries) > count + 1  # what LLVM has said of this machine is one, too, and so is what recipes say
    for entry in entries:
        whole = bytearray(entry.read_bytes())
        whole[len(whole) // 2] ^= 8
        entry.write_bytes(whole)
    assert outcome(started(tmp_path)) == (count, bits)
    assert outcome(started(tmp_path)) == (0, bits)


@pytest.mark.llvm
def test_torn_machine_code_is_compiled_again(tmp_path):
    count, bits = outcome(started(tmp_path))
    for entry in tmp_path.iterdir():
        if entry.name != "secret":
            entry.write_bytes(entry.read_bytes()[:-7])
    assert outcome(started(tmp_path)) == (count, bits)


@pytest.mark.llvm
def test_a_disk_that_is_full_does_no_harm(tmp_path):
    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))  # room for the secret, for nothing else

    full = outcome(started(tmp_path / "c", preexec_fn=fill))
    assert full[0] > 0
    assert full == outcome(started("off"))
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["secret"]


@pytest.mark.llvm
def test_a_folder_that_cannot_be_written_does_no_harm(tmp_path):
    (tmp_path / "file").write_text("")
    assert outcome(started(tmp_path / "file" / "c")) == outcome(started("off"))
    _, bits = outcome(started(tmp_path / "c"))
    (tmp_path / "c").chmod(0o500)
    try:
        assert outcome(started(tmp_path / "c")) == (0, bits)
    finally:
        (tmp_path / "c").chmod(0o700)


@pytest.mark.llvm
def test_processes_that_compile_the_same_at_once(tmp_path):
    processes = [started(tmp_path / "c") for _ in range(4)]
    found = [outcome(process) for process in processes]
    assert len({bits for _, bits in found}) == 1
    alone = outcome(started("off"))[0]
    assert sum(count for count, _ in found) == alone  # the others wait for the first one
    assert outcome(started(tmp_path / "c"))[0] == 0


@pytest.mark.llvm
def test_processes_that_are_killed_leave_nothing_broken(tmp_path):
    expected = outcome(started("off"))[1]
    for delay in (0.3, 0.5, 0.7, 0.9, 1.1):
        process = started(tmp_path / "c")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(delay)
        process.kill()
        process.communicate()
    assert outcome(started(tmp_path / "c"))[1] == expected
    assert outcome(started(tmp_path / "c")) == (0, expected)
    kept = DiskCache(tmp_path / "c", 10**9)
    entries = [p.name for p in (tmp_path / "c").iterdir() if p.name != "secret" and not p.name.startswith(".")]
    assert entries and all(kept.load(name) is not None for name in entries)


def test_what_a_killed_writer_has_left_counts_and_goes_first(tmp_path):
    kept = DiskCache(tmp_path, 2000)
    (tmp_path / ".left").write_bytes(bytes(1500))
    os.utime(tmp_path / ".left", ns=(0, 0))
    for index in range(3):
        kept.store(f"n{index}", bytes(400))
    kept._sweep()
    assert not (tmp_path / ".left").exists() and kept.load("n2") is not None


@pytest.mark.llvm
def test_what_decides_on_machine_code_is_in_its_name(tmp_path, monkeypatch):
    from jit.runtime.kernels import code_store
    from jit.runtime.targets.target import Target

    kept = DiskCache(tmp_path, 10**6)
    monkeypatch.setattr(caching, "shared", lambda: kept)
    text = "define i32 @kernel(ptr %data, ptr %geometry) {\nret i32 0\n}\n"
    host = Target.host()
    other = Target(host.triple, "", ())
    for variant, target in [(text, host), (text, other), (text.replace("ret i32 0", "ret i32 1"), host)]:
        before = code_store.STORE.compilations
        first = code_store.STORE.object_file(variant, target)
        assert code_store.STORE.object_file(variant, target) == first
        assert code_store.STORE.compilations == before + 1
