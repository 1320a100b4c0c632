"""Resetting and copying a group's offsets on every broker of a topic."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias

from ariane.broker.v1.offset_service_pb2 import (
    CloneConsumerOffsetsRequest,
    OffsetTable,
    QueueConsumerOffset,
    ResetConsumerOffsetsRequest,
)
from ariane_record.counted import counted
from ariane_sdk.checks.queue_arguments import checked_offsets
from ariane_sdk.client.broker_calls import answer_of, peer_name, read_address
from ariane_sdk.consumer.offsets.start_position import StartPosition, checked_start
from ariane_sdk.errors import CallError, GroupNotFound, IllegalArgument
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.timestamps import timestamp_from
from ariane_sdk.routing.route import BrokerRoute, Route

ResetTarget: TypeAlias = StartPosition | Mapping[MessageQueue, int]
"""The target of a reset: a start position, or a table of some queues."""

OffsetsAt: TypeAlias = Callable[[BrokerRoute], Awaitable[Iterable[QueueConsumerOffset]]]

_UNKNOWN_THERE: Final = (GroupNotFound,)
"""Errors to ignore: a broker on which the group never consumed has no offsets."""


class OffsetResets:
    """Changes offsets of groups in the brokers of one topic."""

    def __init__(self, connections: Connections, route: Route, *, timeout_s: float) -> None:
        self._connections = connections
        self._route = route
        self._timeout_s = timeout_s

    async def reset(
        self, group: str, to: ResetTarget, *, skip: bool, validate_only: bool
    ) -> dict[MessageQueue, int]:
        """Reset offsets, or only validate; return the new offsets.

        Raises:
            IllegalArgument: A queue of the table does not belong to the topic.
            CallError: A call to a broker failed; others may have done it.
        """
        requests = self._requests(group, to, skip=skip, validate_only=validate_only)

        async def reset_at(broker: BrokerRoute) -> Iterable[QueueConsumerOffset]:
            call = self._connections.offsets(read_address(broker)).ResetConsumerOffsets(
                requests[broker.broker_name], timeout=self._timeout_s
            )
            return (await answer_of(call, peer_name(broker))).offsets

        brokers = [broker for broker in self._route.brokers if broker.broker_name in requests]
        return await self._at_all(brokers, reset_at)

    async def clone(self, group: str, target_group: str) -> dict[MessageQueue, int]:
        """Copy offsets to another group, and return them.

        Raises:
            CallError: A call to a broker failed; others may have done it.
        """
        request = CloneConsumerOffsetsRequest(
            consumer_group=group, target_consumer_group=target_group, topic=self._route.topic
        )

        async def clone_at(broker: BrokerRoute) -> Iterable[QueueConsumerOffset]:
            call = self._connections.offsets(read_address(broker)).CloneConsumerOffsets(
                request, timeout=self._timeout_s
            )
            return (await answer_of(call, peer_name(broker))).offsets

        return await self._at_all(self._route.brokers, clone_at)

    def _requests(
        self, group: str, to: ResetTarget, *, skip: bool, validate_only: bool
    ) -> dict[str, ResetConsumerOffsetsRequest]:
        """The requests to brokers, by broker name."""

        def request() -> ResetConsumerOffsetsRequest:
            return ResetConsumerOffsetsRequest(
                consumer_group=group, topic=self._route.topic, validate_only=validate_only
            )

        requests = {broker.broker_name: request() for broker in self._route.brokers}
        if isinstance(to, Mapping):
            for name, table in self._tables(to, requests).items():
                requests[name].table.CopyFrom(OffsetTable(queue_offsets=table))
            return {name: asked for name, asked in requests.items() if asked.HasField("table")}
        start = checked_start(to)
        for asked in requests.values():
            if isinstance(start, datetime):
                asked.time.CopyFrom(timestamp_from(start))
                asked.only_back = not skip
            else:
                asked.earliest = start == "earliest"
        return requests

    def _tables(
        self, offsets: Mapping[MessageQueue, int], brokers: Iterable[str]
    ) -> dict[str, dict[int, int]]:
        known = frozenset(brokers)
        tables: dict[str, dict[int, int]] = defaultdict(dict)
        for queue, queue_offset in checked_offsets(offsets).items():
            if queue.topic != self._route.topic or queue.broker_name not in known:
                raise IllegalArgument(f"{queue} is no queue of topic {self._route.topic!r} now")
            tables[queue.broker_name][queue.queue_id] = queue_offset
        if not tables:
            raise IllegalArgument("a table of offsets names at least one queue")
        return tables

    async def _at_all(
        self, brokers: Sequence[BrokerRoute], act: OffsetsAt
    ) -> dict[MessageQueue, int]:
        """Call every broker; raise the first error after all have answered."""
        answers = await asyncio.gather(*map(act, brokers), return_exceptions=True)
        offsets: dict[MessageQueue, int] = {}
        errors: list[BaseException] = []
        for broker, answer in zip(brokers, answers, strict=True):
            if isinstance(answer, BaseException):
                errors.append(answer)
                continue
            offsets |= {
                MessageQueue(entry.topic, broker.broker_name, entry.queue_id): entry.queue_offset
                for entry in answer
            }
        serious = [error for error in errors if not isinstance(error, _UNKNOWN_THERE)]
        if not serious and len(errors) == len(brokers):
            serious = errors
        if serious:
            if isinstance(serious[0], CallError):
                done = len(brokers) - len(errors)
                serious[0].add_note(f"{done} of {counted(len(brokers), 'broker')} did it")
            raise serious[0]
        return dict(sorted(offsets.items()))
