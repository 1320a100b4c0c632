"""``FilterServerService``: the state of the FilterServer."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.duration_pb2 import Duration
from grpc import aio

from ariane.filter.v1 import filter_server_service_pb2 as server_pb
from ariane.filter.v1.filter_server_service_pb2_grpc import FilterServerServiceServicer
from ariane_filter.pulling.broker_link import BrokerLink
from ariane_filter.rpc.filter_wire import time_of
from ariane_filter.running.running_filter import RunningFilter
from ariane_filter.running.running_filters import RunningFilters


class FilterServerServicer(FilterServerServiceServicer):
    """Answers operators about running filters."""

    def __init__(
        self,
        link: BrokerLink,
        running: RunningFilters,
        *,
        address: Callable[[], str],
        uploads: str,
    ) -> None:
        self._link = link
        self._running = running
        self._address = address
        self._uploads = uploads

    async def GetFilterServerState(
        self,
        request: server_pb.GetFilterServerStateRequest,
        context: aio.ServicerContext[Any, Any],
    ) -> server_pb.GetFilterServerStateResponse:
        """Return the state."""
        running = self._running.all()
        ended = self._running
        return server_pb.GetFilterServerStateResponse(
            address=self._address(),
            broker_name=self._link.broker_name,
            workers=map(self._worker, running),
            examined_record_count=ended.examined_count + sum(r.examined_count for r in running),
            delivered_record_count=ended.delivered_count + sum(r.delivered_count for r in running),
            uploads=self._uploads,
        )

    def _worker(self, running: RunningFilter) -> server_pb.FilterWorker:
        jailed = running.jailed
        spent = Duration()
        spent.FromMilliseconds(round(jailed.cpu_seconds * 1000))
        return server_pb.FilterWorker(
            filter_version=str(running.version),
            consumer_groups=[running.group],
            start_time=time_of(running.start_time_ms),
            examined_record_count=running.examined_count,
            delivered_record_count=running.delivered_count,
            processor_duration=spent,
            process_id=jailed.process_id,
            strike_count=jailed.strike_count,
            last_failure=jailed.last_failure,
        )
