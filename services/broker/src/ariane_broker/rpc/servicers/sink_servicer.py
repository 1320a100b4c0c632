"""``SinkService``: the home brokers of sinks, and the progress of their batch transactions."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from typing import Any, Final

from grpc import aio

from ariane.broker.v1 import sink_service_pb2 as sink_pb
from ariane.broker.v1.sink_service_pb2_grpc import SinkServiceServicer
from ariane.common.v1 import access_pb2 as access
from ariane_broker.rpc.translation.sink_wire import (
    attempts_of,
    batch_message,
    contents_of,
    home_message,
    home_of,
)
from ariane_broker.rpc.translation.wire_time import time_of
from ariane_broker.spark_batches.batch_parts import BatchParts
from ariane_broker.spark_batches.records.batch_names import check_batch
from ariane_broker.spark_batches.records.batch_records import BatchKey
from ariane_broker.spark_batches.sinks import SinkReport, Sinks
from ariane_servicekit import in_turns
from ariane_servicekit.security.gate.asking import (
    may_adopt_sink,
    may_update_sink,
    require,
    require_publish,
    require_publish_some,
    require_sink,
    user_name,
)


class SinkServicer(SinkServiceServicer):
    """Translates requests about sinks."""

    asked_methods: Final = frozenset({"GetSinkHome", "NoteSinkHome", "DeleteSink"})
    """Methods that ask for the rights on what their handles touch."""

    def __init__(self, sinks: Sinks, parts: BatchParts) -> None:
        self._sinks = sinks
        self._parts = parts

    async def GetSinkHome(
        self, request: sink_pb.GetSinkHomeRequest, context: aio.ServicerContext[Any, Any]
    ) -> sink_pb.GetSinkHomeResponse:
        """Return the home of a sink."""
        home = self._sinks.home_of(request.query_id)
        if home is not None:
            self._check_owner(access.ACTION_GET, request.query_id)
            note = self._sinks.note_of(request.query_id)
            if note is not None and not note.owner and may_adopt_sink(note.topic):
                self._sinks.adopt(request.query_id, user_name())
        return sink_pb.GetSinkHomeResponse(home=home_message(home) if home else None)

    async def NoteSinkHome(
        self, request: sink_pb.NoteSinkHomeRequest, context: aio.ServicerContext[Any, Any]
    ) -> sink_pb.NoteSinkHomeResponse:
        """Store the home of a sink."""
        user = user_name()
        if request.home.move_count and may_update_sink(request.query_id):
            # An operator moves it, for whoever writes to it: he does not own it.
            require(access.ACTION_UPDATE, access.RESOURCE_SINK, request.query_id)
            user = ""
        else:
            self._check_writer(request)
        home = await self._sinks.note_home(
            request.query_id, request.topic, home_of(request.home), user
        )
        return sink_pb.NoteSinkHomeResponse(home=home_message(home))

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

    async def PrepareBatch(
        self, request: sink_pb.PrepareBatchRequest, context: aio.ServicerContext[Any, Any]
    ) -> sink_pb.PrepareBatchResponse:
        """Keep a part of a batch for the decision of its home."""
        batch = BatchKey(request.query_id, request.batch_id)
        attempts = attempts_of(request.attempts)
        await self._parts.prepare(batch, home_of(request.home), request.decision_id, attempts)
        return sink_pb.PrepareBatchResponse()

    async def PublishBatch(
        self, request: sink_pb.PublishBatchRequest, context: aio.ServicerContext[Any, Any]
    ) -> sink_pb.PublishBatchResponse:
        """Keep a decision of a home, and make the part of the batch visible."""
        await self._parts.publish(
            BatchKey(request.query_id, request.batch.batch_id),
            home_of(request.home),
            contents_of(request.batch),
            until_visible=request.until_visible,
        )
        return sink_pb.PublishBatchResponse()

    async def GetBatchDecision(
        self, request: sink_pb.GetBatchDecisionRequest, context: aio.ServicerContext[Any, Any]
    ) -> sink_pb.GetBatchDecisionResponse:
        """Return what became of a preparation."""
        batch = BatchKey(request.query_id, request.batch_id)
        check_batch(batch)
        fate = await self._parts.coordinator.fate_of(batch, request.decision_id)
        committed = None if fate.contents is None else batch_message(batch.batch_id, fate.contents)
        return sink_pb.GetBatchDecisionResponse(decided=fate.decided, batch=committed)

    def _check_writer(self, request: sink_pb.NoteSinkHomeRequest) -> None:
        is_known = self._sinks.is_known(request.query_id)
        if is_known:
            self._check_owner(access.ACTION_UPDATE, request.query_id)
        if request.topic:
            require_publish(request.topic)
        elif not is_known:
            # Its rows name topics, each of which is asked for; but a note is written before.
            require_publish_some()

    def _check_owner(self, action: int, query_id: str) -> None:
        note = self._sinks.note_of(query_id)
        if note is None:
            require_sink(action, query_id, "")
        else:
            require_sink(action, query_id, note.owner, note.topic)


def _sink_message(report: SinkReport) -> sink_pb.Sink:
    note = report.note
    return sink_pb.Sink(
        query_id=report.query_id,
        topic=note.topic if note else "",
        home=home_message(note.home) if note else None,
        note_time=time_of(note.timestamp_ms) if note else None,
        batch_id=report.batch_id,
        record_count=report.record_count,
        commit_time=time_of(report.commit_ms) if report.commit_ms else None,
        staged_record_count=report.staged_record_count,
        staged_bytes=report.staged_bytes,
        stage_time=time_of(report.stage_ms) if report.stage_ms else None,
        publishing=report.publishing,
        failure=report.failure,
        prepared_batch_id=report.prepared_id,
        unnotified_broker_names=report.unnotified,
    )
