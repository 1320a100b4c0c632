"""Requests and replies: the properties of their messages, and the requester's wait.

A request is an ordinary message with four more properties, those of RocketMQ::

    CORRELATION_ID     which request a reply belongs to
    REPLY_TO_CLIENT    which client waits for it
    TTL                for how long, milliseconds
    CLUSTER            the cluster whose reply topic the requester reads

A reply goes to the topic ``<cluster>_REPLY_TOPIC`` with the same properties and ``MSG_TYPE=reply``.
Its tag is the id of the requester, so that the broker gives each requester its own replies only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from ariane_record.layout import ByteBuffer
from ariane_record.names import reply_topic
from ariane_sdk.checks.message_types import check_types
from ariane_sdk.checks.property_names import check_property_names
from ariane_sdk.errors import CallError, IllegalArgument, RequestTimeout, SendError
from ariane_sdk.message import Message, ReceivedMessage, SendResult, SystemMessage
from ariane_sdk.net.error_copy import error_copy
from ariane_sdk.producer.requests.reply_inbox import CORRELATION_ID, ReplyInbox
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock

REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL_MS: Final = "TTL"
CLUSTER: Final = "CLUSTER"
MESSAGE_TYPE: Final = "MSG_TYPE"
REPLY_TYPE: Final = "reply"

Send = Callable[[Message, float], Awaitable[SendResult]]
"""Sends a message within some seconds."""


def reply_to(
    request: ReceivedMessage, body: ByteBuffer, properties: Mapping[str, str]
) -> SystemMessage:
    """Build the message that answers a request.

    Raises:
        IllegalArgument: The message is no request.
        MessageIllegal: The pairs include properties of the system.
    """
    asked = request.properties
    missing = {CORRELATION_ID, REPLY_TO_CLIENT, CLUSTER} - asked.keys()
    if missing:
        raise IllegalArgument(
            f"{request!r} is no request: it lacks {', '.join(sorted(missing))}",
            reason="NO_REQUEST",
        )
    topic = reply_topic(asked[CLUSTER])
    check_property_names(Message(topic, b"", properties=properties))
    own = {
        MESSAGE_TYPE: REPLY_TYPE,
        CORRELATION_ID: asked[CORRELATION_ID],
        REPLY_TO_CLIENT: asked[REPLY_TO_CLIENT],
        TTL_MS: asked.get(TTL_MS, "0"),
    }
    return SystemMessage(topic, body, tag=asked[REPLY_TO_CLIENT], properties={**properties, **own})


class Requests:
    """The requests of one producer that wait for replies."""

    def __init__(
        self,
        routes: Routes,
        inbox: ReplyInbox,
        *,
        clock: Clock,
        new_unique_id: Callable[[], str],
    ) -> None:
        self._routes = routes
        self._inbox = inbox
        self._clock = clock
        self._new_unique_id = new_unique_id

    async def request(self, message: Message, send: Send, timeout_s: float) -> ReceivedMessage:
        """Send a request, and wait for the first reply.

        Raises:
            RequestTimeout: No reply came in time.
            SendError: The request was not acknowledged.
            ArianeError: As ``send`` of the producer.
        """
        check_types(message)
        check_property_names(message)
        deadline_s = self._clock.monotonic_s() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                route = await self._routes.get_for_send(message.topic)
                cluster_name = route.brokers[0].cluster_name
                await self._inbox.listen(cluster_name, reply_topic(cluster_name))
        except CallError as error:
            raise error_copy(error, SendError) from error
        except TimeoutError:
            raise RequestTimeout(
                f"not ready to get a reply within {timeout_s:g} s; the request was not sent",
                retriable=True,
            ) from None
        correlation_id = self._new_unique_id()
        own = {
            CORRELATION_ID: correlation_id,
            REPLY_TO_CLIENT: self._inbox.client_id,
            TTL_MS: str(int(timeout_s * 1000)),
            CLUSTER: cluster_name,
        }
        reply = self._inbox.expect(correlation_id)
        try:
            await send(_with_properties(message, own), deadline_s - self._clock.monotonic_s())
            async with asyncio.timeout(deadline_s - self._clock.monotonic_s()):
                return await reply
        except TimeoutError:
            raise RequestTimeout(
                f"no reply within {timeout_s:g} s", outcome_unknown=True, retriable=True
            ) from None
        finally:
            self._inbox.forget(correlation_id)


def _with_properties(message: Message, own: Mapping[str, str]) -> SystemMessage:
    return SystemMessage(
        message.topic,
        message.body,
        message.tag,
        message.keys,
        message.message_group,
        {**message.stored_properties, **own},
        message.flag,
        expire_after=message.expire_after,
    )
