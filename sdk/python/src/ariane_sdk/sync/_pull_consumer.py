"""A pull consumer with blocking calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from ariane_sdk.checks.local_filter import Local
from ariane_sdk.checks.sql_filter import Sql
from ariane_sdk.checks.uploaded_filter import Uploaded
from ariane_sdk.consumer import pull_consumer as _pull_consumer
from ariane_sdk.consumer.group.allocation import AllocationStrategy
from ariane_sdk.consumer.group.consumer_plan import MessageModel
from ariane_sdk.consumer.offsets.start_position import StartPosition
from ariane_sdk.errors import ClientNotRunning
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.name_servers import NameServerAddresses
from ariane_sdk.runtime.blocking import BlockingClient, blocking
from ariane_sdk.security import CredentialsGiven, TlsGiven
from ariane_sdk.settings import PullSettings

if TYPE_CHECKING:
    import pyarrow as pa


class PullConsumer(BlockingClient[_pull_consumer.PullConsumer]):
    """Fetches messages when the application wants them; see ``ariane_sdk.PullConsumer``."""

    def __init__(
        self,
        name_servers: NameServerAddresses | None = None,
        *,
        group: str,
        subscriptions: Mapping[str, str | Sql | Uploaded | Local] | None = None,
        start: StartPosition = "latest",
        auto_commit: bool = True,
        model: MessageModel = "clustering",
        strategy: AllocationStrategy | None = None,
        column_names: Sequence[str] | None = None,
        settings: PullSettings | None = None,
        tls: TlsGiven = None,
        credentials: CredentialsGiven = None,
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
                tls=tls,
                credentials=credentials,
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
        """The client id of this consumer."""
        return self._client.client_id

    @property
    def lost_message_count(self) -> int:
        """How many messages were passed over because the broker has lost them: damaged records."""
        return self._client.lost_message_count

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
        """Stop pulling and delivering messages of these queues."""
        self._on_loop(lambda: self._client.pause(*queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Continue with paused queues."""
        self._on_loop(lambda: self._client.resume(*queues))

    def commit_nowait(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit the polled messages without waiting for the broker."""
        self._on_loop(lambda: self._client.commit_nowait(offsets))

    def columns(self) -> Iterator[pa.RecordBatch]:
        """Messages as record batches; see ``ariane_sdk.PullConsumer.columns``."""
        batches = self._client.columns()
        while True:
            try:
                yield self._run(anext(batches))
            except (StopAsyncIteration, ClientNotRunning):
                return

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """The messages one by one; each counts as done when the next is requested."""
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
        """Close; after an error, messages in hand do not count as done."""
        self._run_last(lambda: self._client.__aexit__(exc_type, exc, traceback))
