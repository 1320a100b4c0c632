"""``MessagingService``: what clients of RocketMQ 5 call."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the protocol.

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

from grpc import aio

from apache.rocketmq.v2 import service_pb2 as pb
from apache.rocketmq.v2.definition_pb2 import Code
from apache.rocketmq.v2.service_pb2_grpc import MessagingServiceServicer
from ariane_gateway.rpc.client_calls import ClientCalls
from ariane_gateway.rpc.door import Door, time_of
from ariane_gateway.rpc.receiving_calls import ReceivingCalls
from ariane_gateway.rpc.sending_calls import SendingCalls
from ariane_gateway.rpc.statuses import Illegal, ends_repeats
from ariane_gateway.rpc.telemetry import Telemetry
from ariane_servicekit import ServiceError, feature_not_available
from ariane_wire.server.context import CallContext

_Context = aio.ServicerContext[Any, Any]

_acknowledged: Final = ends_repeats(pb.AckMessageResponse)
_forwarded: Final = ends_repeats(pb.ForwardMessageToDeadLetterQueueResponse, Code.OK)


class MessagingServicer(MessagingServiceServicer):
    """Hands each call to those who answer its kind."""

    def __init__(
        self,
        door: Door,
        clients: ClientCalls,
        sending: SendingCalls,
        receiving: ReceivingCalls,
        telemetry: Telemetry,
    ) -> None:
        self._door = door
        self._clients = clients
        self._sending = sending
        self._receiving = receiving
        self._telemetry = telemetry

    async def QueryRoute(
        self, request: pb.QueryRouteRequest, context: _Context
    ) -> pb.QueryRouteResponse:
        """Where the queues of a topic are."""
        return await self._door.answer(self._clients.route, request, context, pb.QueryRouteResponse)

    async def QueryAssignment(
        self, request: pb.QueryAssignmentRequest, context: _Context
    ) -> pb.QueryAssignmentResponse:
        """Which queues a consumer receives from."""
        return await self._door.answer(
            self._clients.assignment, request, context, pb.QueryAssignmentResponse
        )

    async def Heartbeat(
        self, request: pb.HeartbeatRequest, context: _Context
    ) -> pb.HeartbeatResponse:
        """A client lives."""
        return await self._door.answer(
            self._clients.heartbeat, request, context, pb.HeartbeatResponse
        )

    async def NotifyClientTermination(
        self, request: pb.NotifyClientTerminationRequest, context: _Context
    ) -> pb.NotifyClientTerminationResponse:
        """A client leaves."""
        return await self._door.answer(
            self._clients.termination, request, context, pb.NotifyClientTerminationResponse
        )

    async def Telemetry(  # type: ignore[override]  # it writes by itself, whenever there is something.
        self, request_iterator: AsyncIterator[pb.TelemetryCommand], context: _Context
    ) -> None:
        """The stream of a client."""
        await self._telemetry.serve(request_iterator, context)

    async def SendMessage(
        self, request: pb.SendMessageRequest, context: _Context
    ) -> pb.SendMessageResponse:
        """Send messages."""
        return await self._door.answer(self._sending.send, request, context, pb.SendMessageResponse)

    async def RecallMessage(
        self, request: pb.RecallMessageRequest, context: _Context
    ) -> pb.RecallMessageResponse:
        """Take a delayed message back."""
        return await self._door.answer(
            self._sending.recall, request, context, pb.RecallMessageResponse
        )

    async def ReceiveMessage(  # type: ignore[override]  # all at once, where grpcio writes each.
        self, request: pb.ReceiveMessageRequest, context: CallContext
    ) -> None:
        """Receive messages."""
        try:
            caller = self._door.caller(context)
        except Illegal as error:
            time_s = time_of(context)
            await self._receiving.refuse(error, request, time_s, context.write_together)
            return
        with self._door.staying(caller):
            await self._receiving.receive(request, caller, context.write_together)

    async def AckMessage(
        self, request: pb.AckMessageRequest, context: _Context
    ) -> pb.AckMessageResponse:
        """Acknowledge messages."""
        return await self._door.answer(self._receiving.acknowledge, request, context, _acknowledged)

    async def ChangeInvisibleDuration(
        self, request: pb.ChangeInvisibleDurationRequest, context: _Context
    ) -> pb.ChangeInvisibleDurationResponse:
        """Change how long a message stays invisible."""
        # Some clients take the handle of the answer, whatever its status.
        handle = request.receipt_handle
        make = ends_repeats(partial(pb.ChangeInvisibleDurationResponse, receipt_handle=handle))
        return await self._door.answer(self._receiving.change_invisible, request, context, make)

    async def ForwardMessageToDeadLetterQueue(
        self, request: pb.ForwardMessageToDeadLetterQueueRequest, context: _Context
    ) -> pb.ForwardMessageToDeadLetterQueueResponse:
        """Make a message a dead letter."""
        return await self._door.answer(
            self._receiving.forward_to_dead_letters, request, context, _forwarded
        )

    async def EndTransaction(
        self, request: pb.EndTransactionRequest, context: _Context
    ) -> pb.EndTransactionResponse:
        """End a transaction."""
        return await self._door.answer(
            self._sending.end_transaction, request, context, pb.EndTransactionResponse
        )

    def PullMessage(
        self, request: pb.PullMessageRequest, context: _Context
    ) -> AsyncIterator[pb.PullMessageResponse]:
        """Not served: no client calls it."""
        raise _not_called("PullMessage")

    async def UpdateOffset(
        self, request: pb.UpdateOffsetRequest, context: _Context
    ) -> pb.UpdateOffsetResponse:
        """Not served: no client calls it."""
        raise _not_called("UpdateOffset")

    async def GetOffset(
        self, request: pb.GetOffsetRequest, context: _Context
    ) -> pb.GetOffsetResponse:
        """Not served: no client calls it."""
        raise _not_called("GetOffset")

    async def QueryOffset(
        self, request: pb.QueryOffsetRequest, context: _Context
    ) -> pb.QueryOffsetResponse:
        """Not served: no client calls it."""
        raise _not_called("QueryOffset")

    async def SyncLiteSubscription(
        self, request: pb.SyncLiteSubscriptionRequest, context: _Context
    ) -> pb.SyncLiteSubscriptionResponse:
        """Not served: there are no lite topics."""
        raise feature_not_available("a lite topic of RocketMQ, which this cluster does not have,")


def _not_called(method: str) -> ServiceError:
    return feature_not_available(f"{method}, which no client of RocketMQ 5 calls,")
