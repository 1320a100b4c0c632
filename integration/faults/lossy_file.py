"""A file of which the disk has lost pages: FUSE, mounted over the file itself.

Reads of those pages are EIO, as of a disk; in a mapping they are SIGBUS. All else goes through to
the file below. Only root can mount, and only Linux has it: see ``can_lose_pages``.

The protocol is that of ``linux/fuse.h``::

    request   length u32 | opcode u32 | unique u64 | node u64 | uid, gid, pid, padding u32 | ...
    answer    length u32 | minus errno i32 | unique u64 | ...
"""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import Final, Self

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_DETACH: Final = 2
_REQUEST: Final = Struct("<IIQQIIII")
_ANSWER: Final = Struct("<IiQ")
_READ: Final = Struct("<QQI")
_WRITE: Final = Struct("<QQIIQII")
_SETATTR: Final = Struct("<IIQQ")
_FALLOCATE: Final = Struct("<QQQ")
_ATTRIBUTES: Final = Struct("<QII6Q10I")
_INIT: Final = Struct("<IIIIHHIIHHI28x")
_BUFFER_BYTES: Final = (1 << 20) + 4096
_WRITE_BYTES_MAX: Final = 1 << 17
_SIZE_IS_SET: Final = 1 << 3

_FORGET, _BATCH_FORGET, _INTERRUPT, _DESTROY = 2, 42, 36, 38
_GETATTR, _SETATTR_CODE, _OPEN, _READ_CODE, _WRITE_CODE, _RELEASE = 3, 4, 14, 15, 16, 18
_FSYNC, _FLUSH, _INIT_CODE, _FALLOCATE_CODE = 20, 25, 26, 43


class LossyFile:
    """Mounts itself over a file, and unmounts at the end.

    Files that are open already stay what they are.
    """

    def __init__(self, path: Path, begin: int, end: int) -> None:
        """Take what is to be lost.

        Args:
            path: The file.
            begin: The first byte that cannot be read.
            end: Behind the last one.
        """
        self._path = os.fsencode(path)
        self._lost = (begin, end)
        self._file = self._device = -1
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._answers: dict[int, Callable[[bytes], bytes]] = {
            _INIT_CODE: lambda _: _INIT.pack(7, 31, 1 << 17, 0, 0, 0, _WRITE_BYTES_MAX, 1, 0, 0, 0),
            _GETATTR: lambda _: self._attributes(),
            _SETATTR_CODE: self._set_attributes,
            _OPEN: lambda _: bytes(16),
            _READ_CODE: self._read,
            _WRITE_CODE: self._write,
            _FALLOCATE_CODE: self._allocate,
            _FSYNC: self._sync,
            _FLUSH: lambda _: b"",
            _RELEASE: lambda _: b"",
        }

    def __enter__(self) -> Self:
        self._file = os.open(self._path, os.O_RDWR)
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._device},rootmode=100644,user_id=0,group_id=0,allow_other"
        if _LIBC.mount(b"lossy", self._path, b"fuse", 0, options.encode()) != 0:
            number = ctypes.get_errno()
            os.close(self._device)
            os.close(self._file)
            raise OSError(number, os.strerror(number), os.fsdecode(self._path))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _LIBC.umount2(self._path, _DETACH)
        self._thread.join(10)
        os.close(self._device)
        os.close(self._file)

    def _serve(self) -> None:
        with suppress(OSError):  # ENODEV: it was unmounted, and nobody has it open any more.
            while True:
                request = os.read(self._device, _BUFFER_BYTES)
                _, opcode, unique, *_ = _REQUEST.unpack_from(request)
                if opcode == _DESTROY:
                    return
                if opcode in (_FORGET, _BATCH_FORGET, _INTERRUPT):
                    continue
                number, content = 0, b""
                try:
                    content = self._answers[opcode](request[_REQUEST.size :])
                except KeyError:
                    number = errno.ENOSYS
                except OSError as error:
                    number = error.errno or errno.EIO
                head = _ANSWER.pack(_ANSWER.size + len(content), -number, unique)
                os.write(self._device, head + content)

    def _attributes(self) -> bytes:
        status = os.fstat(self._file)
        times = int(status.st_atime), int(status.st_mtime), int(status.st_ctime)
        return _ATTRIBUTES.pack(
            *(0, 0, 0, 1, status.st_size, status.st_blocks, *times, 0, 0, 0),
            *(status.st_mode, 1, 0, 0, 0, 4096, 0),
        )

    def _set_attributes(self, fields: bytes) -> bytes:
        valid, _, _, size = _SETATTR.unpack_from(fields)
        if valid & _SIZE_IS_SET:
            os.ftruncate(self._file, size)
        return self._attributes()

    def _read(self, fields: bytes) -> bytes:
        _, position, size = _READ.unpack_from(fields)
        begin, end = self._lost
        if position < end and begin < position + size:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return os.pread(self._file, size, position)

    def _write(self, fields: bytes) -> bytes:
        _, position, size, *_ = _WRITE.unpack_from(fields)
        os.pwrite(self._file, fields[_WRITE.size : _WRITE.size + size], position)
        return size.to_bytes(4, "little") + bytes(4)

    def _allocate(self, fields: bytes) -> bytes:
        _, position, size = _FALLOCATE.unpack_from(fields)
        os.posix_fallocate(self._file, position, size)
        return b""

    def _sync(self, _: bytes) -> bytes:
        os.fsync(self._file)
        return b""


def can_lose_pages() -> bool:
    """Whether this process may mount such a file."""
    with tempfile.NamedTemporaryFile() as file:
        try:
            with LossyFile(Path(file.name), 0, 1):
                return True
        except OSError:
            return False
