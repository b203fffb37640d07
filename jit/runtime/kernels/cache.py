"""Machine code on disk: what one process has compiled, the next one loads.

An entry is named by a digest of everything that the code depends on, and carries a message authentication code under
a secret of the user's own. An entry that does not match - a flipped bit, a torn write, a foreign file - is deleted
and compiled again; it never reaches the linker. Nothing here raises: a cache that cannot be used is no cache.

    JIT_CACHE=off | FOLDER      no cache | where it is; by default the platform's folder for caches
    JIT_CACHE_MB=512            its size; the entries that were not used for longest go first

Note [Whom the cache trusts]
    Whoever can write into the folder could have their code run. So the folder and the secret must belong to this user
    and be writable by no one else, or the cache is not used. The secret guards against accidents and against files
    that were brought in from elsewhere, not against the user.

Note [Turns]
    Processes that start at once want the same entries at once, and each would make all of them. So whoever is about to
    make one that takes long locks a byte of the secret's file, by the entry's name, and looks once more whether it is
    there. The system ends the lock with the process, however that ends. A lock is a courtesy and decides on nothing
    but time: who cannot get it - no locks on this file system, a holder that was stopped - goes on without, and two
    threads of one process do not see each other's.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import hmac
import os
import stat
import sys
import tempfile
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

_FORMAT = b"jit-cache-1\n"
_MAC_BYTES = 32
_KEPT_SHARE = 0.8
"""The share of the cache's limit that a sweep leaves filled, so that the next entry does not cause another one."""
_SWEPT_SHARE = 0.01
"""The share of the cache's limit that all processes together write, on average, between two checks of its size: a check
looks at every entry, and there may be a hundred thousand."""


_PATIENCE = 30.0
"""The seconds for which one process waits for others that make what it needs, after which it waits no more."""
_LONGEST_PAUSE = 0.05


def digest(parts: Sequence[str]) -> str:
    """The name of an entry: a digest of texts, in which no two different lists collide."""
    hashed = hashlib.sha256(_FORMAT)
    for part in parts:
        data = part.encode()
        hashed.update(len(data).to_bytes(8, "little"))
        hashed.update(data)
    return hashed.hexdigest()


class DiskCache:
    """A folder of authenticated entries; safe among processes, and harmless when the folder is unusable.

    Args:
        folder: Where the entries lie; it is made if need be.
        limit: In bytes.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._secret = _secret(folder)
        self._locks = None if self._secret is None else _opened(folder / _SECRET)
        """The file whose bytes are locked. It stays open: to close it anywhere would end all locks of this process."""
        if self._locks is not None:
            weakref.finalize(self, os.close, self._locks)
        self._patience = _PATIENCE
        """The seconds for which this process is still going to wait."""

    @property
    def usable(self) -> bool:
        """Whether entries are kept at all."""
        return self._secret is not None

    def load(self, name: str) -> bytes | None:
        """The data that was stored under this name, or None."""
        if self._secret is None:
            return None
        path = self.folder / name
        try:
            whole = _contents(path, self.limit + len(_FORMAT) + _MAC_BYTES)
        except (OSError, MemoryError):
            return None
        data = None if whole is None else self._checked(name, whole)
        with contextlib.suppress(OSError):
            if data is None:
                path.unlink()
            else:
                os.utime(path)
        return data

    def store(self, name: str, data: bytes) -> None:
        """Keep data under this name, in one step: other processes see all of it or nothing."""
        if self._secret is None or len(data) > self.limit:
            return
        with contextlib.suppress(OSError):
            handle, temporary = tempfile.mkstemp(prefix=".", dir=self.folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_FORMAT + self._mac(name, data) + data)
                os.replace(temporary, self.folder / name)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
            if len(data) > _draw(name) * self.limit * _SWEPT_SHARE:
                self._sweep()

    @contextlib.contextmanager
    def turn(self, name: str) -> Iterator[None]:
        """A block in which no other process makes the entry `name`, see Note [Turns]; look for it first inside."""
        place = zlib.crc32(name.encode())
        has_lock = self._locks is not None and self._wait(self._locks, place)
        try:
            yield
        finally:
            if has_lock and self._locks is not None:
                with contextlib.suppress(OSError):
                    fcntl.lockf(self._locks, fcntl.LOCK_UN, 1, place)

    def _wait(self, locks: int, place: int) -> bool:
        """Wait for a byte to be unlocked, and lock it; whether that was possible."""
        pause = 0.001
        while self._patience > 0:
            try:
                fcntl.lockf(locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                return True
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    return False
            time.sleep(pause)
            self._patience -= pause
            pause = min(2 * pause, _LONGEST_PAUSE)
        return False

    def _mac(self, name: str, data: bytes) -> bytes:
        assert self._secret is not None
        return hmac.digest(self._secret, name.encode() + b"\n" + data, "sha256")

    def _checked(self, name: str, whole: bytes) -> bytes | None:
        start = len(_FORMAT) + _MAC_BYTES
        data = whole[start:]
        expected = _FORMAT + self._mac(name, data)
        return data if hmac.compare_digest(expected, whole[:start]) else None

    def _sweep(self) -> None:
        """Drop the entries that were not used for longest, if the cache has outgrown its limit."""
        found = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    about = entry.stat(follow_symlinks=False)
                    if entry.name != _SECRET:
                        found.append((about.st_mtime_ns, about.st_size, entry.path))
        total = sum(size for _, size, _ in found)
        if total <= self.limit:
            return
        for _, size, path in sorted(found):
            if total <= self.limit * _KEPT_SHARE:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
                total -= size


def _draw(name: str) -> float:
    """A number from 0 to 1 that a name decides: as good as a random one, and no generator of the user's changes."""
    return zlib.crc32(name.encode()) / 2**32


@cache
def shared() -> DiskCache | None:
    """The cache of this process, as the environment asks for it; None if it is switched off or unusable."""
    wanted = os.environ.get("JIT_CACHE", "")
    if wanted.lower() in ("off", "0", "none"):
        return None
    found = DiskCache(Path(wanted) if wanted else default_folder(), _limit())
    return found if found.usable else None


def default_folder() -> Path:
    """The folder in which the platform keeps caches."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "jit-tracer"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "jit-tracer"


def _limit() -> int:
    try:
        return int(float(os.environ.get("JIT_CACHE_MB", "512")) * 1e6)
    except (ValueError, OverflowError):
        return 512_000_000


def _contents(path: Path, limit: int) -> bytes | None:
    """The contents of a file; None if it is too long or not a plain file: a pipe would keep its reader waiting."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            return None
        raise
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        return file.read() if stat.S_ISREG(about.st_mode) and about.st_size <= limit else None


def _opened(path: Path) -> int | None:
    """A file to be locked; None if it cannot be."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None


# -- the secret --------------------------------------------------------------------------------------------------

_SECRET = "secret"
_SECRET_BYTES = 32


def _secret(folder: Path) -> bytes | None:
    """The secret of a folder that is this user's alone, made if need be; None if the folder cannot be trusted."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(folder, stat.S_ISDIR):
            return None
        path = folder / _SECRET
        if not path.exists():
            _make_secret(path)
        if not _is_private(path, stat.S_ISREG):
            return None
        secret = path.read_bytes()
    except (OSError, RuntimeError):  # no home folder is a RuntimeError
        return None
    return secret if len(secret) == _SECRET_BYTES else None


def _is_private(path: Path, is_kind: Callable[[int], bool]) -> bool:
    about = path.lstat()
    return is_kind(about.st_mode) and about.st_uid == os.geteuid() and not about.st_mode & 0o022


def _make_secret(path: Path) -> None:
    """Write a secret aside and link it into place: of several processes one wins, and none reads half of it."""
    handle, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(os.urandom(_SECRET_BYTES))
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
