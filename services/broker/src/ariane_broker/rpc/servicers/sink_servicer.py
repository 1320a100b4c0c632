"""``SinkService``: the home brokers of sinks, and the progress of their batch transactions."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from typing import Any, Final

from grpc import aio

from ariane.broker.v1 import sink_service_pb2 as sink_pb
from ariane.broker.v1.sink_service_pb2_grpc import SinkServiceServicer
from ariane.common.v1 import access_pb2 as access
from ariane_broker.rpc.translation.wire_time import time_of
from ariane_broker.spark_batches.batch_records import Contents
from ariane_broker.spark_batches.sink_homes import SinkHome
from ariane_broker.spark_batches.sinks import SinkReport, Sinks
from ariane_servicekit import in_turns
from ariane_servicekit.security.gate.asking import require_sink, user_name


class SinkServicer(SinkServiceServicer):
    """Translates requests about sinks."""

    asked_methods: Final = frozenset({"GetSinkHome", "NoteSinkHome", "DeleteSink"})
    """Methods that ask for the rights on what their handles touch."""

    def __init__(self, sinks: Sinks) -> None:
        self._sinks = sinks

    async def GetSinkHome(
        self, request: sink_pb.GetSinkHomeRequest, context: aio.ServicerContext[Any, Any]
    ) -> sink_pb.GetSinkHomeResponse:
        """Return the home of a sink."""
        home = self._sinks.home_of(request.query_id)
        if home is not None:
            self._check_owner(access.ACTION_GET, request.query_id)
        return sink_pb.GetSinkHomeResponse(home=_home_message(home) if home else None)

    async def NoteSinkHome(
        self, request: sink_pb.NoteSinkHomeRequest, context: aio.ServicerContext[Any, Any]
    ) -> sink_pb.NoteSinkHomeResponse:
        """Store the home of a sink."""
        if self._sinks.is_known(request.query_id):
            self._check_owner(access.ACTION_UPDATE, request.query_id)
        home = await self._sinks.note_home(
            request.query_id, request.topic, _home(request.home), user_name()
        )
        return sink_pb.NoteSinkHomeResponse(home=_home_message(home))

    async def ListSinks(
        self, request: sink_pb.ListSinksRequest, context: aio.ServicerContext[Any, Any]
    ) -> sink_pb.ListSinksResponse:
        """List sinks."""
        page = await self._sinks.page(request.query_id, request.page_size, request.page_token)
        return sink_pb.ListSinksResponse(
            sinks=await in_turns(map(_sink_message, page.entries)),
            next_page_token=page.next_page_token,
        )

    async def DeleteSink(
        self, request: sink_pb.DeleteSinkRequest, context: aio.ServicerContext[Any, Any]
    ) -> sink_pb.DeleteSinkResponse:
        """Forget a sink."""
        self._check_owner(access.ACTION_DELETE, request.query_id)
        deleted = await self._sinks.delete(request.query_id)
        return sink_pb.DeleteSinkResponse(
            dropped_record_count=deleted.dropped_count,
            lost_record_count=deleted.lost_count,
        )

    def _check_owner(self, action: int, query_id: str) -> None:
        require_sink(action, query_id, self._sinks.owner_of(query_id))


def _home(message: sink_pb.SinkHome) -> SinkHome:
    contents = {
        each.batch_id: Contents(each.record_count, each.content_sum)
        for each in message.committed_batches
    }
    last_id = message.committed_batch_id if message.HasField("committed_batch_id") else None
    return SinkHome(message.broker_name, message.move_count, last_id, contents)


def _home_message(home: SinkHome) -> sink_pb.SinkHome:
    return sink_pb.SinkHome(
        broker_name=home.broker_name,
        move_count=home.move_count,
        committed_batch_id=home.committed_id,
        committed_batches=[
            sink_pb.CommittedBatch(batch_id=batch_id, record_count=count, content_sum=content_sum)
            for batch_id, (count, content_sum) in home.contents.items()
        ],
    )


def _sink_message(report: SinkReport) -> sink_pb.Sink:
    note = report.note
    return sink_pb.Sink(
        query_id=report.query_id,
        topic=note.topic if note else "",
        home=_home_message(note.home) if note else None,
        note_time=time_of(note.timestamp_ms) if note else None,
        batch_id=report.batch_id,
        record_count=report.record_count,
        commit_time=time_of(report.commit_ms) if report.commit_ms else None,
        staged_record_count=report.staged_record_count,
        staged_bytes=report.staged_bytes,
        stage_time=time_of(report.stage_ms) if report.stage_ms else None,
        publishing=report.publishing,
        failure=report.failure,
    )
