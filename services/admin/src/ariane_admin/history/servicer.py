"""``HistoryService``: series and their samples."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from grpc import aio

from ariane.admin.v1 import history_service_pb2 as history_pb
from ariane.admin.v1.history_service_pb2_grpc import HistoryServiceServicer
from ariane_admin.history.store import SampleStore
from ariane_admin.servicers.times import milliseconds_in, time_of
from ariane_servicekit import Clock, PageRequest, field_invalid
from ariane_servicekit.database import Database

_Context = aio.ServicerContext[Any, Any]

POINTS_MAX: Final = 1000

_POINTS_DEFAULT: Final = 100
_HOUR_MS: Final = 3_600_000


class HistoryServicer(HistoryServiceServicer):
    """Translates questions about samples."""

    def __init__(
        self, store: SampleStore, database: Database, clock: Clock, *, interval_ms: int
    ) -> None:
        self._store = store
        self._database = database
        self._clock = clock
        self._interval_ms = interval_ms

    async def ListSeries(
        self, request: history_pb.ListSeriesRequest, context: _Context
    ) -> history_pb.ListSeriesResponse:
        """List series that have samples."""
        page = PageRequest.of(
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"series:{request.kind}",
            kinds=(int, str),
        )
        after = None if page.last is None else (int(page.last[0]), str(page.last[1]))
        found = await self._database.call(
            self._store.series, request.kind, after=after, limit=page.limit + 1
        )
        taken = page.page_of(found, lambda each: each)
        series = [
            # The number is one of the contract's.
            history_pb.Series(kind=kind, name=name)  # type: ignore[arg-type]
            for kind, name in taken.entries
        ]
        return history_pb.ListSeriesResponse(series=series, next_page_token=taken.next_page_token)

    async def GetHistory(
        self, request: history_pb.GetHistoryRequest, context: _Context
    ) -> history_pb.GetHistoryResponse:
        """Read the samples of series."""
        if request.kind not in history_pb.SeriesKind.values() or not request.kind:
            raise field_invalid("kind", "is required")
        end_ms = milliseconds_in(request, "end_time")
        end_ms = self._clock.now_ms() + 1 if end_ms is None else end_ms
        begin_ms = milliseconds_in(request, "begin_time")
        begin_ms = end_ms - _HOUR_MS if begin_ms is None else begin_ms
        if begin_ms >= end_ms:
            raise field_invalid("begin_time", "must be before end_time")
        step_ms = self._step_ms(request, end_ms - begin_ms)
        points = await self._database.call(
            self._store.points, request.kind, request.name, begin_ms, end_ms, step_ms=step_ms
        )
        step = Duration()
        step.FromMilliseconds(step_ms)
        return history_pb.GetHistoryResponse(
            points=(
                history_pb.HistoryPoint(time=time_of(each.time_ms), value=each.value)
                for each in points
            ),
            step_duration=step,
        )

    def _step_ms(self, request: history_pb.GetHistoryRequest, span_ms: int) -> int:
        """A step that is wide enough for the most points of an answer, and for one sample each."""
        if request.HasField("step_duration"):
            wanted_ms = request.step_duration.ToMilliseconds()
            if wanted_ms <= 0:
                raise field_invalid("step_duration", "must be more than nothing")
        else:
            wanted_ms = span_ms // _POINTS_DEFAULT
        return max(wanted_ms, self._interval_ms, -(-span_ms // (POINTS_MAX - 1)))
