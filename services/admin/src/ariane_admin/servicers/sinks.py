"""``SinkService``: the names that exactly-once writes leave on brokers."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from typing import Any

from grpc import aio

from ariane.admin.v1 import sink_service_pb2 as sink_pb
from ariane.admin.v1.sink_service_pb2_grpc import SinkServiceServicer
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_admin.times import timestamp_of
from ariane_sdk import SinkReport
from ariane_servicekit import field_invalid

_Context = aio.ServicerContext[Any, Any]


class SinkServicer(SinkServiceServicer):
    """Calls every broker that a sink concerns."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._client = cluster.doors.client

    async def before(self, method: str, request: Any) -> sink_pb.ListSinksResponse:
        """The sink in brokers before it is changed."""
        if not request.sink_name:
            return sink_pb.ListSinksResponse()
        found = await self._client.list_sinks(request.sink_name)
        return sink_pb.ListSinksResponse(sinks=map(_sink_of, found))

    async def ListSinks(
        self, request: sink_pb.ListSinksRequest, context: _Context
    ) -> sink_pb.ListSinksResponse:
        """List sinks by name."""
        answers = await self._cluster.answers()
        page = self._cluster.page(
            await self._client.list_sinks(request.name, leave_out=answers.leave_out),
            lambda sink: (sink.name,),
            request,
            scope=f"sinks:{request.name}",
        )
        return sink_pb.ListSinksResponse(
            sinks=map(_sink_of, page.entries),
            next_page_token=page.next_page_token,
            silent_brokers=self._cluster.silent(answers),
        )

    async def MoveSink(
        self, request: sink_pb.MoveSinkRequest, context: _Context
    ) -> sink_pb.MoveSinkResponse:
        """Move a sink to another broker."""
        for field in ("sink_name", "broker_name"):
            if not getattr(request, field):
                raise field_invalid(field, "is required")
        committed = request.committed_batch_id if request.HasField("committed_batch_id") else None
        if committed is not None and (committed < 0 or not request.home_is_gone):
            rule = "must be 0 or more, and go with home_is_gone: a home that lives knows"
            raise field_invalid("committed_batch_id", rule, committed)
        moved = await self._client.move_sink(
            request.sink_name,
            request.broker_name,
            home_is_gone=request.home_is_gone,
            committed_batch=committed,
            topic=request.topic if request.HasField("topic") else None,
        )
        return sink_pb.MoveSinkResponse(
            previous_home=moved.home,
            home=moved.target,
            previous_home_answered=moved.home_answered,
            batch_id=moved.batch_id,
            unnotified_broker_names=moved.unnotified_broker_names,
        )

    async def DeleteSink(
        self, request: sink_pb.DeleteSinkRequest, context: _Context
    ) -> sink_pb.DeleteSinkResponse:
        """Delete a sink on all brokers."""
        if not request.sink_name:
            raise field_invalid("sink_name", "is required")
        deleted = await self._client.delete_sink(request.sink_name)
        return sink_pb.DeleteSinkResponse(
            broker_names=deleted.broker_names,
            dropped_row_count=deleted.dropped_row_count,
            lost_row_count=deleted.lost_row_count,
        )


def _sink_of(sink: SinkReport) -> sink_pb.ClusterSink:
    return sink_pb.ClusterSink(
        name=sink.name,
        topic=sink.topic,
        home=sink.home,
        home_is_live=sink.home_is_live,
        batch_id=sink.batch_id,
        row_count=sink.row_count,
        commit_time=timestamp_of(sink.commit_time),
        staged_row_count=sink.staged_row_count,
        staged_bytes=sink.staged_bytes,
        stage_time=timestamp_of(sink.stage_time),
        publishing=sink.publishing,
        failure=sink.failure,
        broker_names=sink.broker_names,
        staged_bytes_by_broker=sink.staged_bytes_by_broker,
        prepared_batch_ids=sink.prepared_batch_ids,
        unnotified_broker_names=sink.unnotified_broker_names,
    )
