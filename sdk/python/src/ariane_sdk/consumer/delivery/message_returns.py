"""Sending failed messages back to their brokers: for another try later, or as dead letters.

No broker takes back those of a broadcasting consumer: they are passed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from ariane.broker.v1.group_service_pb2 import GetConsumerGroupRequest
from ariane.broker.v1.retry_service_pb2 import (
    DEAD_LETTER_REASON_ATTEMPTS_EXHAUSTED,
    DEAD_LETTER_REASON_REJECTED,
    DEAD_LETTER_REASON_UNSPECIFIED,
    DeadLetterReason,
    ReturnMessagesRequest,
    ReturnMessagesResponse,
)
from ariane_record.counted import are, counted
from ariane_sdk.client.broker_calls import answer_of, peer_name, read_address
from ariane_sdk.consumer.delivery.failed_messages import FailedMessages
from ariane_sdk.errors import ArianeError, CallError
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.status import error_from_status
from ariane_sdk.net.timestamps import duration_from
from ariane_sdk.routing.route import BrokerRoute
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger

CALLS_MAX: Final = 16
"""Calls to brokers at a time."""

MESSAGES_PER_CALL: Final = 1024

TRIES: Final = 3
LOCAL_ATTEMPTS_MAX: Final = 1_000_000
"""The most attempts that brokers take from a client."""

GROUP_LIFE_S: Final = 10.0
"""How long settings of the group are cached."""

CAUSE_LENGTH_MAX: Final = 1024

REJECTED: Final = DEAD_LETTER_REASON_REJECTED
EXHAUSTED: Final = DEAD_LETTER_REASON_ATTEMPTS_EXHAUSTED


class _KnownCount(NamedTuple):
    """A broker's setting of the group, and until when it is cached."""

    attempts_max: int
    until_s: float


class MessageReturns:
    """Sends failed messages back to their brokers."""

    def __init__(
        self,
        connections: Callable[[], Connections],
        *,
        group: str,
        broker_of: Callable[[MessageQueue], BrokerRoute],
        call_timeout_s: float,
        repeat_delay_s: float = 1.0,
        attempts_max: int = 0,
        clock: Clock,
        random: Random,
    ) -> None:
        """``connections`` returns the channels, once the consumer runs.

        The delay of repeats begins with ``repeat_delay_s``. A message is tried ``attempts_max``
        times; 0 leaves that to the group.
        """
        self._connections = connections
        self._group = group
        self._broker_of = broker_of
        self._call_timeout_s = call_timeout_s
        self._repeat_delay_s = repeat_delay_s
        self._attempts_max = attempts_max
        self._clock = clock
        self._random = random
        self._calls = asyncio.Semaphore(CALLS_MAX)
        self._known_counts: dict[str, _KnownCount] = {}

    def new_return_id(self) -> str:
        """A new id for the returns of one ownership of a queue; brokers know repeats by it."""
        return f"{self._random.getrandbits(96):024x}"

    async def send_back(
        self,
        failed: FailedMessages,
        queue: MessageQueue,
        *,
        return_id: str,
        local_attempts: int,
        reason: DeadLetterReason.ValueType | None = None,
    ) -> list[ReceivedMessage]:
        """Send messages of one queue back.

        Args:
            failed: The failed messages.
            queue: Their queue.
            return_id: The id of this ownership of the queue.
            local_attempts: Earlier attempts that were not reported.
            reason: Why they become dead letters; None if they are tried again.

        Returns:
            The messages that could not be sent back.
        """
        wanted = ReturnMessagesRequest(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            cause=failed.cause[:CAUSE_LENGTH_MAX],
            attempts_max=self._attempts_max,
            return_id=return_id,
            local_attempts=min(local_attempts, LOCAL_ATTEMPTS_MAX),
            dead_letter=reason is not None,
            dead_letter_reason=reason or DEAD_LETTER_REASON_UNSPECIFIED,
        )
        if failed.delay_s is not None:
            wanted.delay.CopyFrom(duration_from(failed.delay_s))
        left: list[ReceivedMessage] = []
        for begin in range(0, len(failed.messages), MESSAGES_PER_CALL):
            left += await self._send(
                wanted, failed.messages[begin : begin + MESSAGES_PER_CALL], queue
            )
        return left

    async def attempts_max(self, queue: MessageQueue) -> int | None:
        """How often the group tries a message in order again; None if it cannot be asked now."""
        if self._attempts_max:
            return self._attempts_max
        known = self._known_counts.get(queue.broker_name)
        if known is not None and known.until_s > self._clock.monotonic_s():
            return known.attempts_max
        try:
            broker = self._broker_of(queue)
            stub = self._connections().groups(read_address(broker))
            call = stub.GetConsumerGroup(
                GetConsumerGroupRequest(consumer_group=self._group),
                timeout=self._call_timeout_s,
            )
            count = (await answer_of(call, peer_name(broker))).group.ordered_attempts_max
        except ArianeError as error:
            logger.info("no broker says how often group %s tries again: %s", self._group, error)
            return None
        self._known_counts[queue.broker_name] = _KnownCount(
            count, self._clock.monotonic_s() + GROUP_LIFE_S
        )
        return count

    async def _send(
        self,
        wanted: ReturnMessagesRequest,
        messages: Sequence[ReceivedMessage],
        queue: MessageQueue,
    ) -> Sequence[ReceivedMessage]:
        """Send one call's messages; return those that were not taken back."""
        request = ReturnMessagesRequest(
            queue_offsets=[message.queue_offset for message in messages],
            commit_log_offsets=[message.commit_log_offset for message in messages],
        )
        request.MergeFrom(wanted)
        async with self._calls:
            for tries in range(1, TRIES + 1):
                try:
                    broker = self._broker_of(queue)
                    stub = self._connections().retries(read_address(broker))
                    call = stub.ReturnMessages(request, timeout=self._call_timeout_s)
                    answer = await answer_of(call, peer_name(broker))
                except CallError as error:
                    if error.retriable and tries < TRIES:
                        await self._clock.sleep(self._repeat_delay_s * tries)
                        continue
                    _log_failure(queue, messages, error)
                    return messages
                except ArianeError as error:
                    _log_failure(queue, messages, error)
                    return messages
                return _refused(messages, answer, queue, peer_name(broker))
        return messages


def _refused(
    messages: Sequence[ReceivedMessage],
    answer: ReturnMessagesResponse,
    queue: MessageQueue,
    peer: str,
) -> Sequence[ReceivedMessage]:
    """The messages that the broker's answer refuses."""
    if len(answer.messages) != len(messages):
        trouble = f"{peer} gives {len(answer.messages)} results for {len(messages)} messages"
        # Which messages they belong to is unknown. Brokers know repeats by their return id.
        _log_failure(queue, messages, CallError(trouble, outcome_unknown=True))
        return messages
    refused = []
    for message, outcome in zip(messages, answer.messages, strict=True):
        if outcome.HasField("error"):
            refused.append(message)
            _log_failure(queue, [message], error_from_status(outcome.error, peer=peer))
    return refused


def _log_failure(
    queue: MessageQueue, messages: Sequence[ReceivedMessage], error: ArianeError
) -> None:
    logger.warning(
        "%s of %s, from %d on, cannot be sent back, and will be tried again here: %s",
        counted(len(messages), "message"),
        queue,
        messages[0].queue_offset,
        error,
    )


PASSED_OVER_ATTEMPTS: Final = 3
"""How often a message is repeated, unless the consumer's settings say otherwise."""


class PassingOver:
    """Passes over messages after some attempts."""

    def __init__(self, attempts_max: int) -> None:
        """Repeat a message so often before; 0: the usual number of times."""
        self.count = 0
        """How many messages were passed over."""
        self._attempts_max = attempts_max or PASSED_OVER_ATTEMPTS

    def is_last(self, tries: int) -> bool:
        """Whether the attempt after so many others was the last one."""
        return tries >= self._attempts_max

    def left(
        self, failed: FailedMessages, queue: MessageQueue, tries: int
    ) -> Sequence[ReceivedMessage]:
        """The messages to deliver again; none after their last attempt, or if rejected."""
        if not (failed.rejected or self.is_last(tries)):
            return failed.messages
        self.count += len(failed.messages)
        logger.error(
            "%s of %s %s passed over after %s, at %s: %s",
            counted(len(failed.messages), "message"),
            queue,
            are(len(failed.messages)),
            counted(tries + 1, "attempt"),
            ", ".join(str(message.queue_offset) for message in failed.messages[:10]),
            failed.cause,
        )
        return []
