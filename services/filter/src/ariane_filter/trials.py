"""Trials of modules, before an upload or for their authors, each in a worker of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import numpy as np

from ariane.broker.v1.pull_service_pb2 import PullRangeRequest
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.filter.v1.filter_service_pb2 import MessageRange, Verdict
from ariane_filter.catalogue.filter_version import language_of
from ariane_filter.jail.errors import FilterError
from ariane_filter.jail.limits import (
    MODULE_BYTES_MAX,
    FilterLanguage,
    FilterModule,
    JailLimits,
)
from ariane_filter.jail.worker_handle import Launch, WorkerHandle
from ariane_filter.pulling.broker_link import BrokerLink
from ariane_filter.pulling.pieces import pieces
from ariane_filter.refusals import refusal_of
from ariane_record.decoding.columns import decode_columns
from ariane_record.errors import RecordCorrupted
from ariane_servicekit import ServiceError, field_invalid

MESSAGES_MAX: Final = 1000
RANGES_MAX: Final = 1000
TRIALS_AT_ONCE: Final = 2
RANGE_S_MAX: Final = 30.0

_SIZE: Final = np.dtype("<i4")


class FilterTrials:
    """Runs modules for trials, not for groups."""

    def __init__(
        self,
        link: BrokerLink,
        *,
        launch: Launch,
        limits: JailLimits,
        uploads: str,
        monotonic: Callable[[], float],
    ) -> None:
        """``uploads``: "off", "wasm" or "any", as in the settings."""
        self._link = link
        self._launch = launch
        self._limits = limits
        self._uploads = uploads
        self._monotonic = monotonic
        self._turns = asyncio.Semaphore(TRIALS_AT_ONCE)

    def checked_upload(self, code: bytes) -> FilterModule:
        """Check a module of a caller.

        Raises:
            ServiceError: ACCESS_DENIED if this server does not accept its language, FIELD_INVALID.
        """
        if not 1 <= len(code) <= MODULE_BYTES_MAX:
            raise field_invalid("module", f"must be 1 to {MODULE_BYTES_MAX} bytes", len(code))
        language = language_of(code)
        if self._uploads == "off" or (
            self._uploads == "wasm" and language is FilterLanguage.PYTHON
        ):
            taken = "no uploads" if self._uploads == "off" else "uploads of WebAssembly only"
            raise ServiceError(
                ErrorReason.ERROR_REASON_ACCESS_DENIED,
                f"this FilterServer takes {taken} (setting uploads)",
                {"uploads": self._uploads},
            )
        return FilterModule(language, code)

    async def load(self, module: FilterModule, subject: str) -> None:
        """Check that a module is a filter, by loading it.

        Raises:
            ServiceError: FILTER_MODULE_INVALID, FEATURE_NOT_AVAILABLE without a jail.
        """
        try:
            async with self._worker(module):
                pass
        except FilterError as error:
            refusal = refusal_of(error, subject)
            if refusal.reason == ErrorReason.ERROR_REASON_FILTER_FAILED:
                # The module broke its limits while it was loaded.
                raise ServiceError(
                    ErrorReason.ERROR_REASON_FILTER_MODULE_INVALID,
                    f"filter {subject} cannot be loaded: {error.cause}",
                    {"filter": subject, "cause": error.cause},
                ) from error
            raise refusal from error

    async def run(
        self, module: FilterModule, subject: str, ranges: Sequence[MessageRange]
    ) -> list[Verdict]:
        """The verdicts of a module on stored messages.

        Raises:
            ServiceError: FIELD_INVALID, FILTER_FAILED, FILTER_MODULE_INVALID, BODY_DAMAGED.
            AioRpcError: The broker did not return the messages.
        """
        count = sum(each.end_queue_offset - each.begin_queue_offset for each in ranges)
        if len(ranges) > RANGES_MAX or not 1 <= count <= MESSAGES_MAX:
            raise field_invalid("ranges", f"must have 1 to {MESSAGES_MAX} messages", count)
        verdicts: list[Verdict] = []
        try:
            async with self._worker(module) as worker:
                for each in ranges:
                    verdicts += await self._judge(worker, each)
        except FilterError as error:
            raise refusal_of(error, subject) from error
        return verdicts

    async def _judge(self, worker: WorkerHandle, asked: MessageRange) -> Iterable[Verdict]:
        verdicts: list[Verdict] = []
        request = PullRangeRequest(
            topic=asked.topic,
            queue_id=asked.queue_id,
            begin_queue_offset=asked.begin_queue_offset,
            end_queue_offset=asked.end_queue_offset,
        )
        async for chunk in self._link.pulls.PullRange(request, timeout=RANGE_S_MAX):
            sizes = np.frombuffer(chunk.record_sizes, _SIZE)
            ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)))
            for first, last in pieces(sizes):
                records, part = chunk.records[ends[first] : ends[last]], sizes[first:last]
                try:
                    mask = await worker.judge(records, part)
                except RecordCorrupted as error:
                    raise ServiceError(
                        ErrorReason.ERROR_REASON_BODY_DAMAGED,
                        f"the filter looks at a body that cannot be read: {error}",
                        {"topic": asked.topic, "queue_id": asked.queue_id, "cause": str(error)},
                    ) from error
                offsets = decode_columns(records, part).queue_offset.tolist()
                verdicts += [
                    Verdict(
                        topic=asked.topic,
                        queue_id=asked.queue_id,
                        queue_offset=offset,
                        matches=matches,
                    )
                    for offset, matches in zip(offsets, mask.tolist(), strict=True)
                ]
        return verdicts

    @asynccontextmanager
    async def _worker(self, module: FilterModule) -> AsyncIterator[WorkerHandle]:
        async with self._turns:
            worker = await WorkerHandle.start(
                module, self._limits, launch=self._launch, monotonic=self._monotonic
            )
            try:
                yield worker
            finally:
                await worker.end()
