"""``DelayedMessageService``: delayed messages, and recalling one."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from typing import Any

from grpc import aio

from ariane.admin.v1 import delayed_message_service_pb2 as delayed_pb
from ariane.admin.v1.delayed_message_service_pb2_grpc import DelayedMessageServiceServicer
from ariane_admin.asking.broker_readings import broker_state
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_record.errors import RecallHandleIllegal
from ariane_record.single.recall_handle import decode_recall_handle
from ariane_sdk import LiveBroker
from ariane_servicekit import field_invalid

_Context = aio.ServicerContext[Any, Any]


class DelayedMessageServicer(DelayedMessageServiceServicer):
    """Asks brokers for counts of delayed messages, and recalls one message."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._doors = cluster.doors

    async def ListDelayedMessages(
        self, request: delayed_pb.ListDelayedMessagesRequest, context: _Context
    ) -> delayed_pb.ListDelayedMessagesResponse:
        """List the delayed messages of each broker."""
        answers = await self._cluster.answers()

        async def at(broker: LiveBroker) -> delayed_pb.BrokerDelayedMessages:
            state = await broker_state(self._doors, broker)
            return delayed_pb.BrokerDelayedMessages(
                cluster_name=broker.cluster_name,
                broker_name=broker.broker_name,
                delayed_messages=state.delayed_messages,
            )

        def key(entry: delayed_pb.BrokerDelayedMessages) -> tuple[str, str]:
            return entry.cluster_name, entry.broker_name

        page = self._cluster.page(
            sorted(await answers.ask(at), key=key),
            key,
            request,
            scope="delayed",
        )
        return delayed_pb.ListDelayedMessagesResponse(
            brokers=page.entries,
            next_page_token=page.next_page_token,
            silent_brokers=self._cluster.silent(answers),
        )

    async def RecallMessage(
        self, request: delayed_pb.RecallMessageRequest, context: _Context
    ) -> delayed_pb.RecallMessageResponse:
        """Recall a message."""
        try:
            named = decode_recall_handle(request.recall_handle)
        except RecallHandleIllegal as error:
            raise field_invalid("recall_handle", f"is refused: {error}") from error
        if request.topic != named.topic:
            raise field_invalid("topic", f"must be {named.topic}, of which the handle is")
        producer = await self._cluster.producer()
        recalled = await producer.recall(request.recall_handle)
        return delayed_pb.RecallMessageResponse(recalled=recalled)
