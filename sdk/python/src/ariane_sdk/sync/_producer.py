"""A producer with blocking calls."""

from __future__ import annotations

import asyncio
import concurrent.futures

from ariane_sdk.errors import ClientNotRunning
from ariane_sdk.message import AcknowledgedLevel, Message, SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer import producer as _producer
from ariane_sdk.producer.accumulator.topic_info import QueueSelector
from ariane_sdk.producer.transactions.transaction import TransactionChecker
from ariane_sdk.routing.name_servers import NameServerAddresses
from ariane_sdk.runtime.blocking import BlockingClient, blocking
from ariane_sdk.security import CredentialsGiven, TlsGiven
from ariane_sdk.settings import ProducerSettings
from ariane_sdk.sync._transaction import Transaction


class Producer(BlockingClient[_producer.Producer]):
    """Sends messages to any topics; see ``ariane_sdk.Producer``.

    Threads that send at the same time share calls to brokers.
    """

    def __init__(
        self,
        name_servers: NameServerAddresses | None = None,
        *,
        group: str = "",
        transaction_checker: TransactionChecker | None = None,
        settings: ProducerSettings | None = None,
        tls: TlsGiven = None,
        credentials: CredentialsGiven = None,
    ) -> None:
        """Set up; see ``ariane_sdk.Producer``. A plain checker runs in threads of its own."""
        super().__init__(
            _producer.Producer(
                name_servers,
                group=group,
                transaction_checker=transaction_checker,
                settings=settings,
                tls=tls,
                credentials=credentials,
            )
        )

    send = blocking(_producer.Producer.send)
    send_one_way = blocking(_producer.Producer.send_one_way)
    recall = blocking(_producer.Producer.recall)
    request = blocking(_producer.Producer.request)
    reply = blocking(_producer.Producer.reply)
    send_batch = blocking(_producer.Producer.send_batch)
    send_columns = blocking(_producer.Producer.send_columns)
    send_half = blocking(_producer.Producer.send_half)
    commit = blocking(_producer.Producer.commit)
    rollback = blocking(_producer.Producer.rollback)
    wait_attached = blocking(_producer.Producer.wait_attached)
    wait_for_room = blocking(_producer.Producer.wait_for_room)
    flush = blocking(_producer.Producer.flush)
    route = blocking(_producer.Producer.route)

    def transaction(
        self,
        message: Message,
        *,
        message_queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        immunity_s: int | None = None,
        level: AcknowledgedLevel | None = None,
        in_sync_min: int | None = None,
    ) -> Transaction:
        """Send a message if a local transaction succeeds; see ``ariane_sdk.Producer.transaction``.

        Example::

            with producer.transaction(Message("orders", b"...")), sessions.begin() as session:
                session.add(order)

        Raises:
            ClientNotRunning: The producer is not running.
        """
        transaction = self._on_loop(
            lambda: self._client.transaction(
                message,
                message_queue=message_queue,
                selector=selector,
                immunity_s=immunity_s,
                level=level,
                in_sync_min=in_sync_min,
            )
        )
        loop = self._loop_thread
        if loop is None:
            raise ClientNotRunning("the client is not running: start it, or use `with`")
        return Transaction(loop, transaction)

    def send_nowait(
        self,
        message: Message,
        *,
        message_queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
    ) -> concurrent.futures.Future[SendResult]:
        """Send one message without waiting; see ``ariane_sdk.Producer.send_nowait``.

        Returns:
            A future of ``concurrent.futures`` with the result or error of ``send``.

        Raises:
            SendBufferFull: The buffer has no room.
            MessageIllegal: The message breaks a rule.
        """
        outcome: concurrent.futures.Future[SendResult] = concurrent.futures.Future()

        def hand_on(sent: asyncio.Future[SendResult]) -> None:
            error = sent.exception()
            if error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(sent.result())

        def start() -> None:
            sent = self._client.send_nowait(message, message_queue=message_queue, selector=selector)
            sent.add_done_callback(hand_on)

        self._on_loop(start)
        return outcome
