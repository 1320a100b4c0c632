"""Calls of producers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from apache.rocketmq.v2 import service_pb2 as pb
from apache.rocketmq.v2.definition_pb2 import COMMIT, GZIP, ROLLBACK, Code, Message, MessageType
from ariane_gateway.refusals import Refused
from ariane_gateway.rpc.caller import Caller, topic_of
from ariane_gateway.rpc.commands import Commands
from ariane_gateway.rpc.send_spans import SendSpans
from ariane_gateway.rpc.sent_message import relayed_message
from ariane_gateway.rpc.statuses import OK, Illegal, status_of, status_of_all
from ariane_gateway.sending.sending import Sending
from ariane_gateway.sending.transaction_handle import decode_transaction_handle
from ariane_record.errors import RecordError
from ariane_record.single.recall_handle import decode_recall_handle
from ariane_sdk.message import RelayedMessage

MARGIN_S = 0.1
"""A send ends so much before its caller stops waiting, so that the caller learns the outcome."""

MESSAGES_MAX = 1024

IMMUNITY_S_MAX = (1 << 31) - 1

_RESOLUTIONS = {COMMIT: True, ROLLBACK: False}


@dataclass(slots=True)
class _Room:
    """For the bodies of one call that come packed: each octet may become a thousand."""

    left_bytes: int
    """What they may still have, unpacked."""


class SendingCalls:
    """Answers producers."""

    def __init__(
        self,
        sending: Sending,
        commands: Commands,
        *,
        body_bytes_max: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._sending = sending
        self._commands = commands
        self._body_bytes_max = body_bytes_max
        self._now_ms = now_ms
        self.spans: SendSpans | None = None
        """Makes spans of sends; None without tracing."""

    async def send(self, request: pb.SendMessageRequest, caller: Caller) -> pb.SendMessageResponse:
        """Send messages to one topic, each by itself.

        Raises:
            Illegal: There are none, or too many, or they go to several topics.
        """
        messages = request.messages
        if not 1 <= len(messages) <= MESSAGES_MAX:
            raise Illegal(
                Code.BAD_REQUEST,
                f"{len(messages)} messages; 1 to {MESSAGES_MAX} are sent at a time",
            )
        if any(each.topic != messages[0].topic for each in messages[1:]):
            raise Illegal(Code.BAD_REQUEST, "messages that are sent together go to one topic")
        response = pb.SendMessageResponse()
        with nullcontext() if self.spans is None else self.spans.around(request, response):
            room = _Room(self._body_bytes_max)
            sends = [
                self._send_one(each, caller, room, response.entries.add()) for each in messages
            ]
            if len(sends) == 1:  # Nearly always: without a task of its own.
                await sends[0]
            else:
                await asyncio.gather(*sends)
            response.status.CopyFrom(status_of_all([each.status for each in response.entries]))
        return response

    async def end_transaction(
        self, request: pb.EndTransactionRequest, _caller: Caller
    ) -> pb.EndTransactionResponse:
        """End a transaction.

        Raises:
            Illegal: It says neither commit nor roll back.
            Refused: It has ended otherwise, is not known, or its broker did not answer.
        """
        topic = topic_of(request.topic)
        if request.resolution not in _RESOLUTIONS:
            raise Illegal(Code.BAD_REQUEST, "a transaction is committed or rolled back")
        handle = decode_transaction_handle(request.transaction_id)
        commit = _RESOLUTIONS[request.resolution]
        await self._sending.end_transaction(topic, handle, commit=commit)
        self._commands.ended(handle, commit=commit)
        return pb.EndTransactionResponse(status=OK)

    async def recall(
        self, request: pb.RecallMessageRequest, _caller: Caller
    ) -> pb.RecallMessageResponse:
        """Take a delayed message back.

        Raises:
            Illegal: It was delivered, or the handle is none.
            Refused: The message is not known, or its broker did not answer.
        """
        topic = topic_of(request.topic)
        try:
            recalled = decode_recall_handle(request.recall_handle)
        except RecordError as error:
            raise Illegal(Code.BAD_REQUEST, str(error)) from None
        if recalled.topic != topic:
            raise Illegal(Code.BAD_REQUEST, f"the recall handle is not of topic {topic}")
        if not await self._sending.recall(topic, request.recall_handle):
            raise Illegal(
                Code.MESSAGE_NOT_FOUND, "the message was delivered, or is being delivered"
            )
        return pb.RecallMessageResponse(status=OK, message_id=recalled.unique_id)

    async def _send_one(
        self, message: Message, caller: Caller, room: _Room, entry: pb.SendResultEntry
    ) -> None:
        try:
            relayed = self._relayed(message, room)
            if message.system_properties.message_type == MessageType.TRANSACTION:
                entry.transaction_id = await self._send_half(relayed, message)
            else:
                wait_s = max(MARGIN_S, caller.time_s - MARGIN_S)
                sent = await self._sending.send(relayed, wait_s)
                entry.transaction_id = relayed.unique_id  # Clients expect one with every message.
                entry.offset = sent.queue_offset
                entry.recall_handle = sent.recall_handle
        except (Refused, Illegal) as error:
            entry.status.CopyFrom(status_of(error))
            return
        entry.status.CopyFrom(OK)
        entry.message_id = relayed.unique_id

    def _relayed(self, message: Message, room: _Room) -> RelayedMessage:
        packed = message.system_properties.body_encoding == GZIP
        bytes_max = room.left_bytes if packed else self._body_bytes_max
        if packed and not bytes_max:
            raise Illegal(
                Code.MESSAGE_BODY_TOO_LARGE,
                f"packed bodies that are sent together have {self._body_bytes_max} bytes at most",
            )
        relayed = relayed_message(message, body_bytes_max=bytes_max, now_ms=self._now_ms())
        if packed:
            room.left_bytes -= len(relayed.body)
        return relayed

    async def _send_half(self, relayed: RelayedMessage, message: Message) -> str:
        immunity_s = None
        system = message.system_properties
        if system.HasField("orphaned_transaction_recovery_duration"):
            wanted_s = system.orphaned_transaction_recovery_duration.seconds
            immunity_s = max(0, min(wanted_s, IMMUNITY_S_MAX))
        return (await self._sending.send_half(relayed, immunity_s)).encode()
