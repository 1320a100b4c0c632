"""The same clients for programs without an event loop: every call waits for its outcome.

::

    from ariane_sdk.sync import Message, Producer

    with Producer("127.0.0.1:9876") as producer:
        producer.send(Message("orders", b"..."))

Each client has an event loop in a thread of its own and may be used from any thread. Clients do not
survive a fork: a child that touches one of its parent's is told so, and makes its own.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ariane_record.compression import Compression
from ariane_sdk import (
    _cluster_client,
    _dead_letters,
    _producer,
    _pull_consumer,
    _push_consumer,
    _queue_reader,
    _transaction_block,
)
from ariane_sdk._allocation import (
    AllocationStrategy,
    Averaging,
    CircularAveraging,
    Configured,
    GroupFacts,
)
from ariane_sdk._blocking import (
    BlockingClient,
    ClosingClient,
    LoopThread,
    blocking,
    blocking_iterator,
)
from ariane_sdk._cluster_client import GroupMember, LiveBroker, QueueLag
from ariane_sdk._conflicts import ConflictSide, SubscriptionConflict
from ariane_sdk._consistent_hash import ConsistentHash
from ariane_sdk._consumer_life import Model
from ariane_sdk._dead_letters import DeadLetter, DeadLetterFilter, Redrive
from ariane_sdk._listener import Listener
from ariane_sdk._machine_room import MachineRoom, MachineRoomNearby
from ariane_sdk._message import (
    AcknowledgedLevel,
    Message,
    MessageQueue,
    ReceivedMessage,
    SendResult,
)
from ariane_sdk._queue_reader import TimeBoundary
from ariane_sdk._route import BrokerRoute, Route
from ariane_sdk._settings import ConsumerSettings, ProducerSettings
from ariane_sdk._start_position import StartPosition
from ariane_sdk._stateless_client import CALL_TIMEOUT_S
from ariane_sdk._status import error_from_rpc
from ariane_sdk._sticky import Sticky
from ariane_sdk._topic_lane import QueueSelector
from ariane_sdk._transaction import (
    HalfMessage,
    TransactionCheck,
    TransactionChecker,
    TransactionOutcome,
)
from ariane_sdk.errors import ClientNotRunning

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "AcknowledgedLevel",
    "AllocationStrategy",
    "Averaging",
    "BrokerRoute",
    "CircularAveraging",
    "ClusterClient",
    "Compression",
    "Configured",
    "ConflictSide",
    "ConsistentHash",
    "ConsumerSettings",
    "DeadLetter",
    "DeadLetterFilter",
    "DeadLetters",
    "GroupFacts",
    "GroupMember",
    "HalfMessage",
    "LiveBroker",
    "MachineRoom",
    "MachineRoomNearby",
    "Message",
    "MessageQueue",
    "Producer",
    "ProducerSettings",
    "PullConsumer",
    "PushConsumer",
    "QueueLag",
    "QueueReader",
    "ReceivedMessage",
    "Redrive",
    "Route",
    "SendResult",
    "Sticky",
    "SubscriptionConflict",
    "TimeBoundary",
    "Transaction",
    "TransactionCheck",
    "TransactionChecker",
    "TransactionOutcome",
    "error_from_rpc",
]


class Producer(ClosingClient[_producer.Producer]):
    """Sends messages to any topics; see ``ariane_sdk.Producer``.

    Threads that send at the same time share calls to brokers.
    """

    def __init__(
        self,
        name_servers: str,
        *,
        group: str = "",
        transaction_checker: TransactionChecker | None = None,
        settings: ProducerSettings | None = None,
    ) -> None:
        """Set up; see ``ariane_sdk.Producer``. A plain checker runs in threads of its own."""
        super().__init__(
            _producer.Producer(
                name_servers,
                group=group,
                transaction_checker=transaction_checker,
                settings=settings,
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
    ) -> Transaction:
        """Send a message if a local transaction succeeds; see ``ariane_sdk.Producer.transaction``.

        Example::

            with producer.transaction(Message("orders", b"...")), sessions.begin() as session:
                session.add(order)
        """
        transaction = self._on_loop(
            lambda: self._client.transaction(
                message, message_queue=message_queue, selector=selector, immunity_s=immunity_s
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
            A future of ``concurrent.futures`` with what ``send`` would return or raise.

        Raises:
            SendBufferFull: There is no room.
            MessageIllegal: It breaks a rule.
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


class Transaction:
    """One transaction: begun with the block, ended with it; see ``ariane_sdk.Transaction``."""

    def __init__(self, loop: LoopThread, transaction: _transaction_block.Transaction) -> None:
        self._loop = loop
        self._transaction = transaction

    @property
    def half_message(self) -> HalfMessage:
        """The half message."""
        return self._transaction.half_message

    @property
    def transaction_id(self) -> str:
        """Names the transaction."""
        return self._transaction.transaction_id

    @property
    def result(self) -> SendResult | None:
        """Where the message lies, once it is committed."""
        return self._transaction.result

    def commit(self) -> SendResult | None:
        """Make the message visible now; see ``ariane_sdk.Transaction.commit``."""
        return self._loop.run(self._transaction.commit())

    def rollback(self) -> None:
        """Have it never become visible; see ``ariane_sdk.Transaction.rollback``."""
        self._loop.run(self._transaction.rollback())

    def leave(self) -> None:
        """Say nothing of the outcome: the check will ask for it."""
        self._transaction.leave()

    def __enter__(self) -> Self:
        self._loop.run(self._transaction.__aenter__())
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.run(self._transaction.__aexit__(exc_type, exc, traceback))


class PushConsumer(BlockingClient[_push_consumer.PushConsumer]):
    """A member of a consumer group; see ``ariane_sdk.PushConsumer``.

    The listener is a plain function and runs in threads of its own.
    """

    def __init__(
        self,
        name_servers: str,
        *,
        group: str,
        subscriptions: Mapping[str, str],
        listener: Listener,
        start: StartPosition = "latest",
        batch_size: int = 32,
        model: Model = "clustering",
        ordered: bool = False,
        strategy: AllocationStrategy | None = None,
        settings: ConsumerSettings | None = None,
    ) -> None:
        """Set up; see ``ariane_sdk.PushConsumer``."""
        super().__init__(
            _push_consumer.PushConsumer(
                name_servers,
                group=group,
                subscriptions=subscriptions,
                listener=listener,
                start=start,
                batch_size=batch_size,
                model=model,
                ordered=ordered,
                strategy=strategy,
                settings=settings,
            )
        )

    wait_assigned = blocking(_push_consumer.PushConsumer.wait_assigned)
    run_until_stopped = blocking(_push_consumer.PushConsumer.run_until_stopped)
    store_offsets = blocking(_push_consumer.PushConsumer.store_offsets)

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._client.group

    @property
    def client_id(self) -> str:
        """The id under which brokers know this member."""
        return self._client.client_id

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that this member has now."""
        return self._on_loop(lambda: self._client.assignment)

    def stop(self) -> None:
        """Finish what the listener has, store offsets, leave the group, and disconnect."""
        if self._loop_thread is None:
            return
        try:
            self._run(self._client.stop())
        except ClientNotRunning:
            pass
        finally:
            self._end()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class PullConsumer(ClosingClient[_pull_consumer.PullConsumer]):
    """Fetches messages when the application wants them; see ``ariane_sdk.PullConsumer``."""

    def __init__(
        self,
        name_servers: str,
        *,
        group: str,
        subscriptions: Mapping[str, str] | None = None,
        start: StartPosition = "latest",
        auto_commit: bool = True,
        model: Model = "clustering",
        strategy: AllocationStrategy | None = None,
        column_names: Sequence[str] | None = None,
        settings: ConsumerSettings | None = None,
    ) -> None:
        """Set up; see ``ariane_sdk.PullConsumer``."""
        super().__init__(
            _pull_consumer.PullConsumer(
                name_servers,
                group=group,
                subscriptions=subscriptions,
                start=start,
                auto_commit=auto_commit,
                model=model,
                strategy=strategy,
                column_names=column_names,
                settings=settings,
            )
        )

    wait_assigned = blocking(_pull_consumer.PullConsumer.wait_assigned)
    assign = blocking(_pull_consumer.PullConsumer.assign)
    poll = blocking(_pull_consumer.PullConsumer.poll)
    committed = blocking(_pull_consumer.PullConsumer.committed)
    seek = blocking(_pull_consumer.PullConsumer.seek)
    commit = blocking(_pull_consumer.PullConsumer.commit)

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._client.group

    @property
    def client_id(self) -> str:
        """The id under which brokers know this consumer."""
        return self._client.client_id

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that this consumer has now."""
        return self._on_loop(lambda: self._client.assignment)

    @property
    def paused(self) -> frozenset[MessageQueue]:
        """The queues that are paused."""
        return self._on_loop(lambda: self._client.paused)

    def position(self, queue: MessageQueue) -> int:
        """The queue offset that is polled next."""
        return self._on_loop(lambda: self._client.position(queue))

    def pause(self, *queues: MessageQueue) -> None:
        """Neither pull nor hand out messages of these queues."""
        self._on_loop(lambda: self._client.pause(*queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Go on with queues that were paused."""
        self._on_loop(lambda: self._client.resume(*queues))

    def commit_nowait(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Be done with what was polled, and have it stored without waiting."""
        self._on_loop(lambda: self._client.commit_nowait(offsets))

    def columns(self) -> Iterator[pa.RecordBatch]:
        """What arrives, as record batches; see ``ariane_sdk.PullConsumer.columns``."""
        batches = self._client.columns()
        while True:
            try:
                yield self._run(anext(batches))
            except (StopAsyncIteration, ClientNotRunning):
                return

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """The messages one by one; each counts as done when the next is asked for."""
        while True:
            try:
                yield self._run(anext(self._client))
            except (StopAsyncIteration, ClientNotRunning):
                return

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close; what was in hand when an error came does not count as done."""
        try:
            self._run(self._client.__aexit__(exc_type, exc, traceback))
        except ClientNotRunning:
            pass
        finally:
            self._end()


class QueueReader(ClosingClient[_queue_reader.QueueReader]):
    """Reads ranges of queues, their bounds, and the offsets of groups."""

    def __init__(self, name_servers: str, *, call_timeout_s: float = CALL_TIMEOUT_S) -> None:
        """Set up; see ``ariane_sdk.QueueReader``."""
        super().__init__(_queue_reader.QueueReader(name_servers, call_timeout_s=call_timeout_s))

    bounds = blocking(_queue_reader.QueueReader.bounds)
    offsets_at = blocking(_queue_reader.QueueReader.offsets_at)
    stored_offsets = blocking(_queue_reader.QueueReader.stored_offsets)
    store_offsets = blocking(_queue_reader.QueueReader.store_offsets)
    read_range = blocking_iterator(_queue_reader.QueueReader.read_range)
    pull_columns = blocking_iterator(_queue_reader.QueueReader.pull_columns)
    find_message = blocking(_queue_reader.QueueReader.find_message)
    query_messages = blocking_iterator(_queue_reader.QueueReader.query_messages)
    messages_between = blocking_iterator(_queue_reader.QueueReader.messages_between)


class DeadLetters(ClosingClient[_dead_letters.DeadLetters]):
    """Reads the dead letters of groups, and sends them back."""

    def __init__(self, name_servers: str, *, call_timeout_s: float = CALL_TIMEOUT_S) -> None:
        """Set up; see ``ariane_sdk.DeadLetters``."""
        super().__init__(_dead_letters.DeadLetters(name_servers, call_timeout_s=call_timeout_s))

    read = blocking_iterator(_dead_letters.DeadLetters.read)
    redrive = blocking(_dead_letters.DeadLetters.redrive)


class ClusterClient(ClosingClient[_cluster_client.ClusterClient]):
    """Asks and changes what a cluster has."""

    def __init__(self, name_servers: str, *, call_timeout_s: float = CALL_TIMEOUT_S) -> None:
        """Set up; see ``ariane_sdk.ClusterClient``."""
        super().__init__(_cluster_client.ClusterClient(name_servers, call_timeout_s=call_timeout_s))

    create_topic = blocking(_cluster_client.ClusterClient.create_topic)
    keep_queue_order = blocking(_cluster_client.ClusterClient.keep_queue_order)
    forget_queue_order = blocking(_cluster_client.ClusterClient.forget_queue_order)
    delete_topic = blocking(_cluster_client.ClusterClient.delete_topic)
    list_topics = blocking(_cluster_client.ClusterClient.list_topics)
    list_brokers = blocking(_cluster_client.ClusterClient.list_brokers)
    route = blocking(_cluster_client.ClusterClient.route)
    list_groups = blocking(_cluster_client.ClusterClient.list_groups)
    list_members = blocking(_cluster_client.ClusterClient.list_members)
    consumer_lag = blocking(_cluster_client.ClusterClient.consumer_lag)
    reset_offsets = blocking(_cluster_client.ClusterClient.reset_offsets)
    clone_offsets = blocking(_cluster_client.ClusterClient.clone_offsets)
    subscription_conflicts = blocking(_cluster_client.ClusterClient.subscription_conflicts)
