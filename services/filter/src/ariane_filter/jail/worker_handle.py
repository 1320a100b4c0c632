"""One worker, from its start to its end: its calls, and the enforcement of its limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from ariane_filter.jail.errors import FilterFailed, FilterInvalid, JailUnavailable
from ariane_filter.jail.frames import BATCH_HEAD, HEAD, MODULE_HEAD, TEXT_BYTES_MAX, TEXTS, Kind
from ariane_filter.jail.limits import FilterLanguage, FilterModule, JailLimits
from ariane_filter.jail.process import WorkerProcess
from ariane_record.errors import RecordCorrupted
from ariane_record.layout import ByteBuffer

Launch = Callable[[FilterLanguage, int], Awaitable[WorkerProcess]]
_T = TypeVar("_T")

LOOK_S: Final = 0.05
"""Interval of checks of a worker's processor time while it works."""

_SIGKILL: Final = -9


class WorkerHandle:
    """Sends batches to one worker, one at a time. After an error it cannot be used any more."""

    def __init__(
        self, process: WorkerProcess, limits: JailLimits, monotonic: Callable[[], float]
    ) -> None:
        self._process = process
        self._limits = limits
        self._monotonic = monotonic
        self._answered_cpu_s = 0.0

    @classmethod
    async def start(
        cls,
        module: FilterModule,
        limits: JailLimits,
        *,
        launch: Launch,
        monotonic: Callable[[], float],
    ) -> WorkerHandle:
        """Start a worker, and let it load a module.

        Raises:
            JailUnavailable: The worker cannot lock itself in.
            FilterInvalid: The module is no filter.
            FilterFailed: The module broke its limits while it was loaded.
        """
        worker = cls(await launch(module.language, limits.memory_bytes), limits, monotonic)
        try:
            await worker._load(module)
        except BaseException:
            await worker.end()
            raise
        return worker

    async def judge(self, records: ByteBuffer, sizes: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which records are to be delivered: bool[count].

        Args:
            records: Records back to back.
            sizes: Bytes of each.

        Raises:
            FilterFailed: A limit is broken, also since its last answer; the worker died, or its
                answer is invalid.
            RecordCorrupted: These are no records.
        """
        self.check_rest()
        columns = np.ascontiguousarray(sizes, np.dtype("<i4")).tobytes()
        length = BATCH_HEAD.size + len(columns) + len(records)
        head = HEAD.pack(Kind.BATCH, length) + BATCH_HEAD.pack(len(sizes))
        cpu_s = self._limits.batch_cpu_s
        work = self._ask((head + columns, records), len(sizes))
        kind, payload = await self._within(work, self._limits.batch_s, cpu_s)
        if kind is Kind.CORRUPT:
            raise RecordCorrupted(_text(payload))
        if kind is Kind.RAISED:
            raise FilterFailed(_text(payload))
        mask = np.frombuffer(payload, np.uint8)
        if kind is not Kind.MASK or len(mask) != len(sizes) or (len(mask) and mask.max() > 1):
            raise FilterFailed(f"the worker answered {len(payload)} bytes of nonsense")
        return mask.view(np.bool_)

    def check_rest(self) -> None:
        """Check that the worker rests since its last answer.

        A filter may write its own answer and go on computing: nobody waits for it any more.

        Raises:
            FilterFailed: It has computed for longer than for a batch.
        """
        if self._process.cpu_seconds() - self._answered_cpu_s > self._limits.batch_cpu_s:
            cpu_s = self._limits.batch_cpu_s
            raise FilterFailed(f"it computed for more than {cpu_s:g} s after its answer")

    async def end(self) -> int:
        """Kill the worker; return its exit status, negative for a signal."""
        return await self._process.end()

    @property
    def process_id(self) -> int:
        """The worker's process."""
        return self._process.pid

    @property
    def cpu_seconds(self) -> float:
        """Processor time that the worker has spent."""
        return self._process.cpu_seconds()

    async def _load(self, module: FilterModule) -> None:
        start_s = self._limits.start_s
        kind, payload = await self._within(self._receive(0), start_s, start_s)
        if kind is Kind.UNAVAILABLE:
            raise JailUnavailable(_text(payload))
        if kind is not Kind.LOCKED:
            raise JailUnavailable("a worker did not say that it is locked in")
        frame = MODULE_HEAD.pack(self._limits.fuel_per_message) + module.code
        work = self._ask((HEAD.pack(Kind.MODULE, len(frame)), frame), 0)
        kind, payload = await self._within(work, start_s, self._limits.load_cpu_s)
        if kind is Kind.INVALID:
            raise FilterInvalid(_text(payload))
        if kind is not Kind.READY:
            raise FilterFailed("the worker answered nonsense when it loaded the module")

    async def _ask(self, parts: tuple[ByteBuffer, ...], length_max: int) -> tuple[Kind, bytes]:
        loop = asyncio.get_running_loop()
        for part in parts:
            await loop.sock_sendall(self._process.channel, part)
        return await self._receive(length_max)

    async def _receive(self, length_max: int) -> tuple[Kind, bytes]:
        """Read one frame; only texts may exceed ``length_max``, up to their own limit."""
        number, length = HEAD.unpack(await self._read(HEAD.size))
        try:
            kind = Kind(number)
        except ValueError:
            raise FilterFailed(f"the worker answered a frame of kind {number}") from None
        if length > (TEXT_BYTES_MAX if kind in TEXTS else length_max):
            raise FilterFailed(f"the worker announced an answer of {length} bytes")
        return kind, await self._read(length)

    async def _read(self, size_bytes: int) -> bytes:
        loop = asyncio.get_running_loop()
        buffer = bytearray(size_bytes)
        rest = memoryview(buffer)
        while rest:
            count = await loop.sock_recv_into(self._process.channel, rest)
            if count == 0:
                raise ConnectionResetError
            rest = rest[count:]
        return bytes(buffer)

    async def _within(self, work: Coroutine[Any, Any, _T], seconds: float, cpu_s: float) -> _T:
        """Await the work, unless it exceeds a limit, or the worker dies."""
        # From answer to answer, so that nothing is done on nobody's account.
        begin, cpu_begin = self._monotonic(), self._answered_cpu_s
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=LOOK_S)
                if task.done():
                    break
                if self._process.cpu_seconds() - cpu_begin > cpu_s:
                    raise FilterFailed(f"it computed for more than {cpu_s:g} s")
                if self._monotonic() - begin > seconds:
                    raise FilterFailed(f"it took more than {seconds:g} s")
            self._answered_cpu_s = self._process.cpu_seconds()
            return task.result()
        except (ConnectionError, BrokenPipeError):
            status = await self._process.end()
            if status == _SIGKILL:
                raise FilterFailed("somebody killed its process", blamed=False) from None
            how = f"by signal {-status}" if status < 0 else f"with status {status}"
            raise FilterFailed(f"its process ended {how}") from None
        finally:
            # The loop must have released the socket before it is closed.
            task.cancel()
            await asyncio.wait({task})


def _text(payload: bytes) -> str:
    return payload.decode("utf-8", "replace")
