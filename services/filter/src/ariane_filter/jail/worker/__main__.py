"""``python -I -m ariane_filter.jail.worker CHANNEL LANGUAGE MEMORY_BYTES``: one worker.

The order is what keeps it safe: namespaces while there is one thread, imports while there are
files, the lock, and only then the first byte of the filter.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Final

from ariane_filter.jail.frames import HEAD, Kind, text_frame
from ariane_filter.jail.limits import FilterLanguage
from ariane_filter.jail.worker.channel import Channel
from ariane_filter.jail.worker.judging import LoadedFilter
from ariane_filter.jail.worker.lock import (
    CannotLock,
    forbid_calls,
    leave_namespaces,
    limit_memory,
)
from ariane_record.single.compression import DECOMPRESSED_BYTES_MAX

DECODING_BYTES: Final = 3 * DECOMPRESSED_BYTES_MAX
"""Memory that decompressing one body may need: zlib holds the result twice, Zstandard a window."""

COMPILER_BYTES: Final = 256 << 20
"""Memory that the compiler of WebAssembly may need, besides the module's own."""

IMPORTABLE: Final = (
    *("base64", "binascii", "bisect", "collections", "copy", "csv", "dataclasses", "datetime"),
    *("decimal", "enum", "fnmatch", "fractions", "functools", "hashlib", "hmac", "itertools"),
    *("ipaddress", "json", "math", "operator", "re", "statistics", "string", "struct", "textwrap"),
    *("time", "typing", "unicodedata", "uuid", "zlib", "encodings.idna", "encodings.latin_1"),
)
"""Modules that Python filters may import; loaded before the lock, which forbids to open files."""


def main(arguments: list[str]) -> int:
    """Run until the parent closes the channel."""
    descriptor, language, memory_bytes = (int(argument) for argument in arguments)
    wasm = language == FilterLanguage.WASM
    channel = Channel(descriptor)
    try:
        leave_namespaces()
        load = _wasm_loader(memory_bytes) if wasm else _python_loader()
        from ariane_filter.jail.worker.serving import serve  # noqa: PLC0415 - NumPy may have threads

        own_bytes = 2 * memory_bytes + COMPILER_BYTES if wasm else memory_bytes
        limit_memory(own_bytes + DECODING_BYTES)
        forbid_calls(descriptor, executable_memory=wasm)
    except (CannotLock, ImportError) as error:
        channel.write(text_frame(Kind.UNAVAILABLE, str(error)))
        return 1
    # Output of a filter is discarded.
    sys.stdin = sys.stdout = sys.stderr = None
    channel.write(HEAD.pack(Kind.LOCKED, 0))
    serve(channel, load)
    return 0


def _python_loader() -> Callable[[bytes, int], LoadedFilter]:
    from ariane_filter.jail.worker.python_filter import PythonFilter  # noqa: PLC0415 - as above

    for name in IMPORTABLE:
        importlib.import_module(name)
    return lambda code, _: PythonFilter(code)


def _wasm_loader(memory_bytes: int) -> Callable[[bytes, int], LoadedFilter]:
    from ariane_filter.jail.worker.wasm_filter import WasmFilter  # noqa: PLC0415 - as above

    return lambda code, fuel: WasmFilter(code, fuel_per_message=fuel, memory_bytes=memory_bytes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
