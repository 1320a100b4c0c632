"""A filter from a WebAssembly module, which is called once for a whole batch.

The module imports nothing and exports ``memory``, ``allocate(size: i32) -> i32`` and
``filter(batch: i32, size: i32) -> i32``. The worker asks for room, writes the batch there, and
calls ``filter``, which writes a verdict for each message and returns 0; another number is a
failure. All numbers are little-endian u32, and starts count from the first byte of the batch::

    0        4                    4 + 16 * count       4 + 17 * count
    +--------+--------------------+--------------------+----------------------------------- - -
    | count  | an entry for each  | a verdict for each | properties and bodies
    +--------+--------------------+--------------------+----------------------------------- - -

    an entry                                           a verdict: one byte, 1 to deliver the
    +--------+--------+--------+--------+              message and 0, as it lies there before,
    | start  | length | start  | length |              to leave it out
    +--------+--------+--------+--------+
      of its properties   of its body

Properties are as stored: ``name 0x01 value 0x02``, repeated. Bodies are as their producers gave
them. Every batch meets a fresh instance: a filter remembers nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

import numpy as np
import wasmtime
from numpy.typing import NDArray

from ariane_filter.jail.worker.judging import ModuleRefused, VerdictMissing
from ariane_record.decoding.columns import RecordColumns, decode_columns

ENTRY_WORDS: Final = 4
COUNT_BYTES: Final = 4
STACK_BYTES: Final = 512 << 10
PART_BODY_BYTES_MAX: Final = 8 << 20
"""Bytes of decompressed bodies in one batch; a larger body is a batch by itself."""

_I32: Final = wasmtime.ValType.i32()
_WANTED: Final = {"allocate": ([_I32], [_I32]), "filter": ([_I32, _I32], [_I32])}


class WasmFilter:
    """Calls a compiled module; 0.1 ms a batch besides the module."""

    def __init__(self, code: bytes, *, fuel_per_message: int, memory_bytes: int) -> None:
        """Compile the module.

        Raises:
            ModuleRefused: It is no WebAssembly, imports something, lacks an export, or cannot be
                instantiated within its limits.
        """
        self._fuel_per_message = fuel_per_message
        self._memory_bytes = memory_bytes
        config = wasmtime.Config()
        config.consume_fuel = True
        config.parallel_compilation = False
        config.max_wasm_stack = STACK_BYTES
        # Memory is allocated as it grows, and not reserved: the worker's own is limited.
        config.memory_reservation = 0
        config.memory_reservation_for_growth = 0
        config.memory_guard_size = 0
        self._engine = wasmtime.Engine(config)
        try:
            self._module = wasmtime.Module(self._engine, code)
        except wasmtime.WasmtimeError as error:
            raise ModuleRefused(_describe(error)) from error
        _check(self._module)
        # A module that cannot be instantiated once never can.
        try:
            self._instance(0)
        except (wasmtime.WasmtimeError, wasmtime.Trap) as error:
            raise ModuleRefused(_describe(error)) from error

    def judge(self, records: bytes, sizes: NDArray[np.int32]) -> bytes:
        """A byte for each record.

        Raises:
            VerdictMissing: The module trapped, or wrote an invalid verdict.
            RecordCorrupted: The bytes are not records, or a body cannot be decompressed.
        """
        columns = decode_columns(records, sizes)
        if not len(columns.compressed_positions()):
            return self._judge(encode_batch(columns, columns.bodies()), len(sizes))
        verdicts = b""
        for part, part_sizes, bodies in _parts(columns, sizes):
            batch = encode_batch(decode_columns(part, part_sizes), bodies)
            verdicts += self._judge(batch, len(bodies), first=len(verdicts))
        return verdicts

    def _instance(self, count: int) -> tuple[wasmtime.Store, wasmtime.Instance]:
        """A new instance, with fuel for ``count`` messages and for its start."""
        store = wasmtime.Store(self._engine)
        store.set_limits(memory_size=self._memory_bytes, instances=1, memories=1)
        store.set_fuel(self._fuel_per_message * (count + 1))
        return store, wasmtime.Instance(store, self._module, [])

    def _judge(self, batch: bytes, count: int, *, first: int = 0) -> bytes:
        """Verdicts of a batch whose messages are a part of a larger one, from place `first` on."""
        try:
            store, instance = self._instance(count)
            exports = instance.exports(store)
            memory = cast("wasmtime.Memory", exports["memory"])
            allocate = cast("wasmtime.Func", exports["allocate"])
            start = allocate(store, len(batch)) & 0xFFFFFFFF
            if start + len(batch) > memory.data_len(store):
                raise VerdictMissing(f"allocate({len(batch)}) answered {start}, beyond its memory")
            memory.write(store, batch, start)
            answer = cast("wasmtime.Func", exports["filter"])(store, start, len(batch))
            if answer != 0:
                raise VerdictMissing(f"filter answered {answer}, not 0")
            begin = start + COUNT_BYTES * (1 + ENTRY_WORDS * count)
            verdicts = bytes(memory.read(store, begin, begin + count))
        except (wasmtime.WasmtimeError, wasmtime.Trap) as error:
            raise VerdictMissing(_describe(error)) from error
        if count and max(verdicts) > 1:
            position = next(i for i, verdict in enumerate(verdicts) if verdict > 1)
            reason = f"verdict {verdicts[position]}, not 0 or 1"
            raise VerdictMissing(reason, first + position)
        return verdicts


def _parts(
    columns: RecordColumns, sizes: NDArray[np.int32]
) -> Iterator[tuple[bytes, NDArray[np.int32], list[bytes]]]:
    """Records, their sizes and bodies, divided where decompressed bodies would fill the memory.

    A filter keeps no state between batches, so the division does not change its verdicts.
    """
    records = bytes(columns.records)
    starts, first, bodies, body_bytes = columns.starts.tolist(), 0, list[bytes](), 0
    starts.append(len(records))
    compressed = frozenset(columns.compressed_positions().tolist())
    for place, body_start in enumerate(columns.body_start.tolist()):
        if place in compressed:
            (body,) = columns.decompressed_bodies(np.array([place], np.int64))
        else:
            body = records[body_start : body_start + int(columns.body_length[place])]
        if bodies and body_bytes + len(body) > PART_BODY_BYTES_MAX:
            yield records[starts[first] : starts[place]], sizes[first:place], bodies
            first, bodies, body_bytes = place, [], 0
        bodies.append(body)
        body_bytes += len(body)
    yield records[starts[first] :], sizes[first:], bodies


def encode_batch(columns: RecordColumns, bodies: list[bytes]) -> bytes:
    """Encode a batch in the module's format."""
    count = len(columns)
    records = columns.records
    property_ends = columns.properties_start + columns.properties_length
    spans = map(slice, columns.properties_start.tolist(), property_ends.tolist())
    properties = b"".join(map(records.__getitem__, spans))
    entries = np.empty((count, ENTRY_WORDS), np.dtype("<u4"))
    first = COUNT_BYTES * (1 + ENTRY_WORDS * count) + count
    entries[:, 1] = columns.properties_length
    entries[:, 0] = first + np.cumsum(columns.properties_length) - columns.properties_length
    lengths = np.fromiter(map(len, bodies), np.int64, count)
    entries[:, 3] = lengths
    entries[:, 2] = first + len(properties) + np.cumsum(lengths) - lengths
    head = np.array([count], np.dtype("<u4")).tobytes()
    return b"".join([head, entries.tobytes(), bytes(count), properties, *bodies])


def _check(module: wasmtime.Module) -> None:
    imported = [f"{each.module}.{each.name}" for each in module.imports]
    if imported:
        raise ModuleRefused(f"it imports {', '.join(map(str, imported[:5]))}; a filter has nothing")
    exports = {each.name: each.type for each in module.exports}
    if not isinstance(exports.get("memory"), wasmtime.MemoryType):
        raise ModuleRefused("it does not export memory")
    for name, (parameters, results) in _WANTED.items():
        kind = exports.get(name)
        if not isinstance(kind, wasmtime.FuncType):
            raise ModuleRefused(f"it does not export the function {name}")
        if kind.params != parameters or kind.results != results:
            wanted = f"{len(parameters)} parameters and 1 result, all i32"
            raise ModuleRefused(f"its function {name} does not have {wanted}")


def _describe(error: Exception) -> str:
    """The error of wasmtime in one line: the last cause without places in the module."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if "wasm trap" in line or "fuel" in line] or lines[:1]
    return causes[-1][:500] if causes else type(error).__name__
