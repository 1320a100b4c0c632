"""A push consumer whose listener is a plain function."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

from ariane_sdk.checks.local_filter import Local
from ariane_sdk.checks.sql_filter import Sql
from ariane_sdk.checks.uploaded_filter import Uploaded
from ariane_sdk.client.listener import Listener
from ariane_sdk.consumer import push_consumer as _push_consumer
from ariane_sdk.consumer.group.allocation import AllocationStrategy
from ariane_sdk.consumer.group.consumer_plan import MessageModel
from ariane_sdk.consumer.offsets.start_position import StartPosition
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.routing.name_servers import NameServerAddresses
from ariane_sdk.runtime.blocking import BlockingClient, blocking
from ariane_sdk.runtime.stop_signals import stop_signals
from ariane_sdk.security import CredentialsGiven, TlsGiven
from ariane_sdk.settings import PushSettings


class PushConsumer(BlockingClient[_push_consumer.PushConsumer]):
    """A member of a consumer group; see ``ariane_sdk.PushConsumer``.

    The listener is a plain function and runs in threads of its own.
    """

    def __init__(
        self,
        name_servers: NameServerAddresses | None = None,
        *,
        group: str,
        subscriptions: Mapping[str, str | Sql | Uploaded | Local],
        listener: Listener,
        start: StartPosition = "latest",
        batch_size: int = 32,
        model: MessageModel = "clustering",
        ordered: bool = False,
        strategy: AllocationStrategy | None = None,
        settings: PushSettings | None = None,
        tls: TlsGiven = None,
        credentials: CredentialsGiven = None,
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
                tls=tls,
                credentials=credentials,
            )
        )

    wait_assigned = blocking(_push_consumer.PushConsumer.wait_assigned)
    store_offsets = blocking(_push_consumer.PushConsumer.store_offsets)

    def run_until_stopped(self, *, handle_signals: bool = True) -> None:
        """Wait until the consumer is closed; see ``ariane_sdk.PushConsumer``.

        Raises:
            SystemExit: The listener called ``sys.exit()``, which closes the consumer.
        """

        def close() -> None:
            self._submit(self._client.close())

        with stop_signals(close) if handle_signals else nullcontext():
            # Signals arrive in the thread that waits here; the loop has another one.
            self._run_callbacks(self._client.run_until_stopped(handle_signals=False))

    @property
    def passed_over_count(self) -> int:
        """How many messages a broadcasting consumer has passed over, on which it failed."""
        return self._client.passed_over_count

    @property
    def lost_message_count(self) -> int:
        """How many messages were passed over because the broker has lost them: damaged records."""
        return self._client.lost_message_count

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._client.group

    @property
    def client_id(self) -> str:
        """The client id of this member."""
        return self._client.client_id

    @property
    def assignment(self) -> frozenset[MessageQueue]:
        """The queues that this member has now."""
        return self._on_loop(lambda: self._client.assignment)

    def pause(self, *queues: MessageQueue) -> None:
        """Stop pulling and delivering messages of these queues; without queues, of all."""
        self._on_loop(lambda: self._client.pause(*queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Go on with these queues; without queues, with all."""
        self._on_loop(lambda: self._client.resume(*queues))
