"""The limits of a worker, and the module that it runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

MODULE_BYTES_MAX: Final = 1 << 20


class FilterLanguage(IntEnum):
    """The language of a module."""

    WASM = 1
    PYTHON = 2


@dataclass(frozen=True, slots=True)
class FilterModule:
    """An uploaded filter."""

    language: FilterLanguage
    """Its language."""
    code: bytes
    """The module: UTF-8 source, or the bytes of a WebAssembly module."""


@dataclass(frozen=True, slots=True)
class JailLimits:
    """The limits of a worker."""

    memory_bytes: int = 64 << 20
    """Memory that the filter may take, beyond what the worker itself needs."""
    batch_cpu_s: float = 1.0
    """Processor seconds for one batch."""
    batch_s: float = 10.0
    """Seconds for one batch by the clock on the wall: more than processor time, because a worker
    may have to wait for its turn on a busy machine."""
    load_cpu_s: float = 5.0
    """Processor seconds for loading the module."""
    start_s: float = 60.0
    """Seconds by the clock on the wall until a worker has locked itself in, and again until it has
    loaded its module."""
    fuel_per_message: int = 10_000_000
    """Instructions for one message; WebAssembly only."""
