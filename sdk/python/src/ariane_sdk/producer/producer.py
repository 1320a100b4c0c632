"""The producer: sends messages, and batches them by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ariane_sdk.checks.demand import demand_of
from ariane_sdk.checks.limits import check_timeout
from ariane_sdk.errors import (
    BatchSendError,
    SendBufferFull,
    SendError,
)
from ariane_sdk.message import AcknowledgedLevel, Message, ReceivedMessage, SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.send_results import SendResults
from ariane_sdk.producer.accumulator.topic_info import (
    NO_OPTIONS,
    QueueSelector,
    SendOptions,
    options_of,
)
from ariane_sdk.producer.producer_life import ProducerLife
from ariane_sdk.producer.requests.request_reply import reply_to

if TYPE_CHECKING:
    import pyarrow as pa


class Producer(ProducerLife):
    """Sends messages to any topics.

    Sends that come while a call to a broker is in flight share the next call. So many concurrent
    sends are as fast as explicit batches, and a single send does not wait for others.

    A producer belongs to the event loop that started it. Its own repeats never store a message
    twice (``ProducerSettings.idempotent``). After an error with ``outcome_unknown``, the message
    may be stored, so sending it again may store it twice.

    Example::

        async with Producer("127.0.0.1:9876", group="orders-api") as producer:
            result = await producer.send(Message("orders", b"...", tag="created"))
    """

    async def send(
        self,
        message: Message,
        *,
        message_queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_s: float | None = None,
        level: AcknowledgedLevel | None = None,
        in_sync_min: int | None = None,
    ) -> SendResult:
        """Send one message, and wait until it is acknowledged.

        Messages with a message group go to one queue in the order of the calls, and so do messages
        for one ``message_queue``. Other messages go to any queue.

        If a send is cancelled before a call carries the message, the message is withdrawn and
        certainly not stored. Otherwise it may be stored, and its outcome is lost.

        Args:
            message: The message.
            message_queue: The queue that the message must go to.
            selector: Chooses that queue from the sorted writable queues of the topic.
            timeout_s: How long to wait, including for room in the buffer; default:
                ``send_timeout_s`` of the settings. A message that no call carries by then is
                withdrawn. The error has the reason ``DEADLINE_PASSED``; ``outcome_unknown`` is true
                if the message may still be stored.
            level: The level that the message must reach before it is acknowledged, if higher than
                the broker's own; it never lowers that. The result names the level that was reached.
            in_sync_min: How many brokers, the primary included, must be in sync and have the
                message. With fewer in sync, the message is refused (``TOO_FEW_IN_SYNC``), and
                repeated until its time is up. Default with the level REPLICATED: 2.

        Raises:
            MessageIllegal: The message breaks a rule; it was not sent.
            SendError: The message was not acknowledged; ``outcome_unknown`` says whether it may be
                stored. Also raised if the topic has no route, or no name server answers.
        """
        options = NO_OPTIONS
        if (
            message_queue is not None
            or selector is not None
            or level is not None
            or in_sync_min is not None
        ):
            options = options_of(message_queue, selector, demand_of(level, in_sync_min))
        if timeout_s is not None:
            return await self._send_within(message, timeout_s, options)
        if self._unsettled.crowded:
            await self.wait_for_room()
        future = self._submit(message, options)
        try:
            return await future
        except asyncio.CancelledError:
            self._intake.withdraw(message.topic, future)
            raise

    async def send_one_way(
        self,
        message: Message,
        *,
        message_queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
    ) -> None:
        """Send one message without waiting for its outcome: for logs and measurements.

        The message is sent with others and repeated like them. This method waits only for room in
        the buffer; ``flush`` and ``close`` wait for the outcome as well.

        Args:
            message: The message.
            message_queue: As in ``send``.
            selector: As in ``send``.

        Raises:
            MessageIllegal: The message breaks a rule; it was not sent.
        """
        if self._unsettled.crowded:
            await self.wait_for_room()
        self._check_running()
        options = options_of(message_queue, selector)
        if self._telemetry is None:
            self._intake.put(message, options, None)
        else:
            self._telemetry.send_one_way(message, lambda m: self._intake.put(m, options, None))

    def send_nowait(
        self,
        message: Message,
        *,
        message_queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
    ) -> asyncio.Future[SendResult]:
        """Send one message without waiting; await ``wait_for_room`` first to bound the buffer.

        Args:
            message: As in ``send``.
            message_queue: As in ``send``.
            selector: As in ``send``.

        Returns:
            A future of the result or error of ``send``. Cancelling it ends only the wait; the
            message is still sent.

        Raises:
            SendBufferFull: The buffer has no room.
            MessageIllegal: The message breaks a rule.
        """
        if self._unsettled.full:
            raise SendBufferFull(f"{self._unsettled.size_bytes} bytes wait already", retriable=True)
        return self._submit(message, options_of(message_queue, selector))

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        level: AcknowledgedLevel | None = None,
        in_sync_min: int | None = None,
    ) -> Sequence[SendResult]:
        """Send many messages of any topics and groups, and wait for all outcomes.

        The messages are sent in as few calls as possible. Each message group keeps its order; the
        batch is not atomic.

        Args:
            messages: The messages.
            level: As in ``send``, for all of them.
            in_sync_min: As in ``send``.

        Returns:
            One result for each message, in the same order. Results of many plain messages are
            created when the caller looks at them.

        Raises:
            BatchSendError: Some messages were not acknowledged; the error has the outcome of each.
        """
        self._check_running()
        demand = demand_of(level, in_sync_min)
        if self._telemetry is None:
            taking = self._intake.take_all(messages, demand)
        else:
            take_all = partial(self._intake.take_all, demand=demand)
            taking = self._telemetry.send_all(messages, take_all)
        if self._message_trace is not None:
            taking = self._message_trace.around_all(messages, taking)
        del messages  # So that the receiver of the list can free the messages early.
        outcomes = await taking
        if isinstance(outcomes, SendResults):
            return outcomes
        results = [outcome for outcome in outcomes if isinstance(outcome, SendResult)]
        if len(results) < len(outcomes):
            raise BatchSendError(outcomes)
        return results

    async def request(self, message: Message, *, timeout_s: float) -> ReceivedMessage:
        """Send a message, and wait for a consumer's reply.

        Every consumer group gets the request; the first reply counts, and later ones are dropped.
        The first request of a producer takes longer, because the producer first starts to listen,
        and creates the reply topic of the cluster if it does not exist.

        Args:
            message: The request. It cannot be delayed.
            timeout_s: How long to wait in total.

        Raises:
            MessageIllegal: It has a delay, or breaks another rule of messages.
            RequestTimeout: No reply came in time. With ``outcome_unknown``, the request is stored,
                and a consumer may have acted on it.
            SendError: The request was not acknowledged; see ``send``.
            CallError: The reply topic does not exist and cannot be created.
        """
        self._check_running()
        check_timeout(timeout_s)
        return await self._requests.request(message, self._send_within, timeout_s)

    async def reply(
        self,
        request: ReceivedMessage,
        body: bytes | bytearray | memoryview,
        *,
        properties: Mapping[str, str] | None = None,
    ) -> SendResult:
        """Answer a request that a consumer received, and wait until the answer is acknowledged.

        Args:
            request: The request as the listener got it; ``properties["REPLY_TO_CLIENT"]`` names the
                requester.
            body: The answer.
            properties: The application's own pairs.

        Raises:
            IllegalArgument: The message is not a request (reason ``NO_REQUEST``).
            ArianeError: As in ``send``.
        """
        return await self.send(reply_to(request, body, properties or {}))

    async def send_columns(
        self,
        topic: str,
        table: pa.Table | pa.RecordBatch,
        *,
        columns: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> pa.Table:
        """Send the rows of an Arrow table, and wait for all; no Python object is created per row.

        The columns are ``body`` (binary or string), and optionally ``tag`` (string or dictionary),
        ``keys`` (list of strings, or string for one key), ``messageGroup`` (string), ``properties``
        (map of strings), ``flag`` (integer) and ``deliveryTimestamp`` (timestamp with a time zone;
        such rows are delivered at that time, and must have no message group). A null means that the
        field is absent, but every row needs a body.

        The whole table is checked before anything is sent. Rows of one message group keep their
        order; the table is not atomic. Large bodies are compressed if the settings say so.
        Cancelling does not withdraw rows that are in flight.

        Args:
            topic: The topic of all rows.
            table: The rows: a table, or any object that exports an Arrow stream.
            columns: The column that holds each field of the message, such as ``{"body": "payload",
                "keys": "id", "messageGroup": "customer"}``; other columns are ignored. By default,
                columns have the names above, and other columns are refused.
            timeout_s: Time for the whole table; ``None``: each batch has ``send_timeout_s``.

        Returns:
            A table with one row for each row sent, in the same order: ``brokerName``, ``queueId``,
            ``queueOffset`` and ``messageId``, the unique id. The offset of a row with a delivery
            time is that of the place where it waits.

        Raises:
            ColumnIllegal: A column or row cannot become messages; nothing was sent.
            ColumnsSendError: Some rows were not acknowledged; the error has the outcome of each.
        """
        self._check_running()
        if timeout_s is not None:
            check_timeout(timeout_s)
        # Arrow is an optional extra, and slow to import.
        from ariane_sdk.producer.intake.columns_intake import ColumnsIntake  # noqa: PLC0415 - see above.

        intake = ColumnsIntake(self._parts, self._intake)
        take_all = partial(intake.take_all, topic, table, columns, timeout_s=timeout_s)
        if self._telemetry is None:
            return await take_all()
        return await self._telemetry.send_columns(topic, getattr(table, "num_rows", 0), take_all)

    def _submit(self, message: Message, options: SendOptions) -> asyncio.Future[SendResult]:
        try:
            is_here = asyncio.get_running_loop() is self._loop  # Without a call for each send.
        except RuntimeError:
            is_here = False
        if not (self._accepting and is_here):
            self._refuse()
        if self._telemetry is None:
            future = self._intake.take(message, options)
        else:
            future = self._telemetry.send(
                message, lambda marked: self._intake.take(marked, options)
            )
        if self._message_trace is not None:
            self._message_trace.sent(message, future)
        return future

    async def _send_within(
        self, message: Message, timeout_s: float, options: SendOptions = NO_OPTIONS
    ) -> SendResult:
        check_timeout(timeout_s)
        future: asyncio.Future[SendResult] | None = None
        try:
            async with asyncio.timeout(timeout_s):
                if self._unsettled.crowded:
                    await self.wait_for_room()
                future = self._submit(message, options)
                return await future
        except (TimeoutError, asyncio.CancelledError) as error:
            trouble = self._intake.trouble_of(message.topic)
            sent = future is not None and not self._intake.withdraw(message.topic, future)
            if not isinstance(error, TimeoutError):
                raise
            certainty = "it may have been stored" if sent else "it was not stored"
            raise SendError(
                f"not acknowledged within {timeout_s:g} s; {certainty}"
                + (f"; before: {trouble}" if trouble else ""),
                reason="DEADLINE_PASSED",
                outcome_unknown=sent,
                retriable=True,
            ) from trouble
