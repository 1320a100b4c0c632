"""Batch transactions as Spark's processes use them: blocking calls to the brokers of a sink.

Tasks stage at all brokers of a sink; one of them, its home, decides whether a batch is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar

from ariane.broker.v1 import transaction_service_pb2 as transaction
from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceStub
from ariane_sdk import MessageQueue
from ariane_sdk.errors import ArianeError, CallError, ServiceUnavailable
from ariane_sdk.translation import error_from_rpc
from ariane_spark.calls.channels import Channels
from ariane_spark.calls.repetition import Repetition
from ariane_spark.calls.routes import Routes
from ariane_spark.calls.sink_batches import Attempt, Sink, SinkBatch
from ariane_spark.calls.sink_homes import HomeUnknown, SinkHomes
from ariane_spark.errors import FeatureNotAvailable, QueueNotFound
from ariane_spark.options.options import RequestPolicy
from ariane_spark.records.contents import Contents
from ariane_wire import CallFailed

WRITE_POLICY: Final = RequestPolicy(retries_max=16)
"""Waits a minute in all for a broker that restarts; a failed task would repeat everything."""

COMMIT_S_MAX: Final = 60.0
"""A large batch takes time until it is completely visible."""

_AnswerT = TypeVar("_AnswerT")

_log: Final = logging.getLogger(__name__)


class BatchTransactions:
    """The batch transactions of one cluster; for one thread of one process."""

    def __init__(
        self,
        endpoints: str,
        policy: RequestPolicy = WRITE_POLICY,
        repetition: Repetition | None = None,
        channels: Channels | None = None,
    ) -> None:
        """Take the addresses; nothing is connected yet.

        Args:
            endpoints: Name servers, ``host:port``, separated by commas.
            policy: The timeout and the repeats of calls.
            repetition: Repeats calls; ``None``: by the policy.
            channels: Connections that others use as well; ``None``: its own.
        """
        self._timeout_s = policy.timeout_ms / 1000
        self._repetition = repetition or Repetition(policy)
        self._channels = channels or Channels()
        self._routes = Routes(endpoints, self._channels, timeout_s=self._timeout_s)
        self._homes = SinkHomes(endpoints, self._routes, self._channels, timeout_s=self._timeout_s)

    def home_of(self, sink: Sink) -> str:
        """The broker that decides for a sink; it is chosen, and noted, before the first batch.

        Raises:
            ArianeError: The broker does not answer, or one that is away may be the home.
        """
        return self._at_home(SinkBatch(sink, 0), lambda home: home)

    def write_queues(self, sink: Sink, topic: str) -> list[MessageQueue]:
        """The queues of a topic that a sink writes to; neighbours are on different brokers.

        Brokers that did not answer when the sink's home was asked for are left out.

        Raises:
            RouteNotFound: No live broker has the topic.
            ArianeError: A broker of it stays without a primary, or no name server answers.
            QueueNotFound: It has no queue on a broker of the sink.
        """
        asker = f"a write to {topic}"
        found = self._repetition.ask(lambda: self._open_queues(sink, topic), asker=asker)
        brokers = ", ".join(sink.brokers) or "any broker"
        if sink.topic not in {None, topic}:
            # Only brokers of its own topic know a sink; this is the topic of its bad rows.
            known = self._repetition.ask(lambda: self._homes.addresses(sink))
            found = [queue for queue in found if queue.broker_name in known]
            brokers = f"a broker of topic {sink.topic}"
        if not found:
            self._routes.forget(topic)  # It may be opened again.
            raise QueueNotFound(f"topic {topic} has no queue to write on {brokers}")
        near = [queue for queue in found if queue.broker_name not in self._homes.silent]
        return sorted(near or found, key=lambda queue: (queue.queue_id, queue.broker_name))

    def group_queues(self, sink: Sink, topic: str) -> list[MessageQueue]:
        """The queues among which message groups are divided, in the order of the rule.

        Raises:
            ArianeError: The topic does not exist, or no name server answers.
            FeatureNotAvailable: Its groups belong to brokers that the sink leaves out.
        """
        queues = self._repetition.ask(lambda: self._routes.group_queues(topic))
        found = [queue for queue in queues if sink.has(queue.broker_name)]
        if len(found) < len(queues) and self.divides_groups(topic):
            raise FeatureNotAvailable(
                "sinkBrokers",
                f"the message groups of {topic}, a topic of type FIFO, are divided among all of"
                " its brokers",
            )
        return found

    def divides_groups(self, topic: str) -> bool:
        """Whether a topic has a fixed division of message groups among several brokers.

        Raises:
            ArianeError: The topic does not exist, or no name server answers.
        """
        return self._repetition.ask(lambda: self._routes.divides_groups(topic))

    def is_committed(self, batch: SinkBatch) -> bool:
        """Whether a batch of a sink, or a later one, is committed.

        Raises:
            ArianeError: The home does not answer.
        """
        request = transaction.GetBatchProgressRequest(query_id=batch.sink.name)
        progress = self._ask_home(batch, lambda stub: stub.GetBatchProgress, request)
        return bool(progress.HasField("batch_id") and progress.batch_id >= batch.batch_id)

    def stage(
        self, broker_name: str, sink: Sink, request: transaction.StageBatchRecordsRequest
    ) -> Callable[[], None]:
        """Begin to stage; return a function that waits for the end, with repeats if they help.

        The function raises:
            ArianeError: It is not staged, or the batch is committed (``TransactionDecided``).
        """
        begun = [self._begin(broker_name, sink, request)]

        def end() -> None:
            def once() -> Any:
                call = begun.pop() if begun else self._begin(broker_name, sink, request)
                return call()

            self._repetition.ask(once, asker=sink.name)

        return end

    def commit(self, batch: SinkBatch, attempts: Collection[Attempt], contents: Contents) -> bool:
        """Make attempts visible, all or none; harmless if the same rows are already visible.

        Args:
            batch: The batch.
            attempts: The attempts of all tasks; none if the batch is known to be committed.
            contents: The fingerprint of the rows of all tasks.

        Returns:
            Whether the batch was committed before.

        Raises:
            ArianeError: The batch is not committed, or is with other rows (``BatchDiffers``).
        """
        request = transaction.CommitBatchRequest(
            query_id=batch.sink.name,
            batch_id=batch.batch_id,
            attempts=[
                transaction.BatchAttempt(
                    partition_id=attempt.partition_id,
                    attempt_token=attempt.token,
                    record_count=attempt.record_count,
                    checksum=attempt.checksum,
                    broker_name=attempt.broker_name,
                )
                for attempt in attempts
            ],
            record_count=contents.row_count,
            content_sum=contents.total,
        )
        done = self._ask_home(batch, lambda stub: stub.CommitBatch, request, timeout_s=COMMIT_S_MAX)
        return bool(done.duplicate)

    def abort(self, batch: SinkBatch) -> bool:
        """Drop staged rows, by one call to each broker; return whether the batch is committed.

        Raises:
            ArianeError: A broker does not answer; the others have dropped theirs.
        """
        request = transaction.AbortBatchRequest(query_id=batch.sink.name, batch_id=batch.batch_id)
        addresses = self._homes.addresses(batch.sink)
        calls = {
            name: self._stub_at(address).AbortBatch.future(request, timeout=self._timeout_s)
            for name, address in addresses.items()
        }
        committed, failures = False, list[ArianeError]()
        for name, call in calls.items():
            try:
                committed |= bool(call.result().committed)
            except CallFailed as failure:
                peer = f"broker {name} at {addresses[name]}"
                failures.append(error_from_rpc(failure, peer=peer))
        if failures:
            raise failures[0]
        return committed

    def _open_queues(self, sink: Sink, topic: str) -> list[MessageQueue]:
        route = self._routes.route(topic)
        found = [queue for queue in route.write_queues if sink.has(queue.broker_name)]
        for broker in () if found else route.brokers:
            if sink.has(broker.broker_name) and not broker.primary_address:
                self._routes.forget(topic)
                raise ServiceUnavailable(
                    f"broker {broker.broker_name} has no primary now, and takes no messages of"
                    f" {topic}",
                    retriable=True,
                )
        return found

    def _ask_home(
        self,
        batch: SinkBatch,
        method: Callable[[TransactionServiceStub], Any],
        request: Any,
        *,
        timeout_s: float | None = None,
    ) -> Any:
        """Ask the home, whichever broker that is by now."""

        def ask(home: str) -> Any:
            try:
                return self._begin(home, batch.sink, request, method, timeout_s)()
            except CallError as error:
                if error.reason == "SINK_MOVED":
                    raise ServiceUnavailable(str(error), retriable=True) from error
                raise

        return self._at_home(batch, ask)

    def _at_home(self, batch: SinkBatch, ask: Callable[[str], _AnswerT]) -> _AnswerT:
        """The answer of the home, found and asked again and again for as long as that may help."""
        find, name = self._homes.find, batch.sink.name
        try:
            return self._repetition.ask(lambda: ask(find(batch)), asker=name)
        except HomeUnknown as error:
            if not batch.may_be_first:
                raise
            _log.warning("%s is the first of a new sink, or else written again: %s", batch, error)
        return self._repetition.ask(lambda: ask(find(batch, awaits_away=False)), asker=name)

    def _begin(
        self,
        broker_name: str,
        sink: Sink,
        request: Any,
        method: Callable[[TransactionServiceStub], Any] = lambda stub: stub.StageBatchRecords,
        timeout_s: float | None = None,
    ) -> Callable[[], Any]:
        """Begin a call; return a function that waits for its answer."""
        try:
            stub, address = self._stub(broker_name, sink)
        except ArianeError as error:
            refusal = error

            def fail() -> Any:
                raise refusal

            return fail
        call = method(stub).future(request, timeout=timeout_s or self._timeout_s)

        def end() -> Any:
            try:
                return call.result()
            except CallFailed as failure:
                if sink.topic is not None:
                    self._routes.forget(sink.topic)
                peer = f"broker {broker_name} at {address}"
                raise error_from_rpc(failure, peer=peer) from failure

        return end

    def _stub(self, broker_name: str, sink: Sink) -> tuple[TransactionServiceStub, str]:
        address = self._homes.addresses(sink).get(broker_name)
        if address is None:
            if sink.topic is not None:
                self._routes.forget(sink.topic)
            raise ServiceUnavailable(f"no address of broker {broker_name} is known", retriable=True)
        return self._stub_at(address), address

    def _stub_at(self, address: str) -> TransactionServiceStub:
        return TransactionServiceStub(self._channels.to(address))
