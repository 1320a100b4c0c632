"""A receiving consumer with blocking calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ariane_sdk.checks.sql_filter import Sql
from ariane_sdk.client.stateless_client import CALL_TIMEOUT_S
from ariane_sdk.consumer import receive_consumer as _receive_consumer
from ariane_sdk.consumer.receiving.message_listener import MessageListener
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.routing.name_servers import NameServerAddresses
from ariane_sdk.runtime.blocking import BlockingClient, blocking
from ariane_sdk.security import CredentialsGiven, TlsGiven


class ReceiveConsumer(BlockingClient[_receive_consumer.ReceiveConsumer]):
    """Receives messages without owning queues, and settles them one by one."""

    def __init__(
        self,
        name_servers: NameServerAddresses | None = None,
        *,
        group: str,
        subscriptions: Mapping[str, str | Sql],
        invisible_s: float = 60.0,
        from_oldest: bool = True,
        by_priority: bool = False,
        keep_invisible: bool = False,
        fail_on_lost_messages: bool = False,
        call_timeout_s: float = CALL_TIMEOUT_S,
        stacks_on_request: bool = True,
        tls: TlsGiven = None,
        credentials: CredentialsGiven = None,
    ) -> None:
        """Set up; see ``ariane_sdk.ReceiveConsumer``."""
        super().__init__(
            _receive_consumer.ReceiveConsumer(
                name_servers,
                group=group,
                subscriptions=subscriptions,
                invisible_s=invisible_s,
                from_oldest=from_oldest,
                by_priority=by_priority,
                keep_invisible=keep_invisible,
                fail_on_lost_messages=fail_on_lost_messages,
                call_timeout_s=call_timeout_s,
                stacks_on_request=stacks_on_request,
                tls=tls,
                credentials=credentials,
            )
        )

    receive_batch = blocking(_receive_consumer.ReceiveConsumer.receive_batch)
    ack = blocking(_receive_consumer.ReceiveConsumer.ack)
    nack = blocking(_receive_consumer.ReceiveConsumer.nack)
    extend = blocking(_receive_consumer.ReceiveConsumer.extend)
    give_back = blocking(_receive_consumer.ReceiveConsumer.give_back)

    def listen(self, listener: MessageListener, *, concurrency: int = 16) -> None:
        """Have a listener process messages until ``close``; see ``ariane_sdk.ReceiveConsumer``.

        Raises:
            ClientNotRunning: The consumer was closed, or does not run.
            SystemExit: The listener called ``sys.exit()``, which closes the consumer.
        """
        self._run_callbacks(self._client.listen(listener, concurrency=concurrency))

    @property
    def lost_message_count(self) -> int:
        """How many messages were passed over because the broker has lost them: damaged records."""
        return self._client.lost_message_count

    def batches(
        self, count_max: int = _receive_consumer.RECEIVE_COUNT_DEFAULT
    ) -> Iterator[list[ReceivedMessage]]:
        """Messages without end in lists; see ``ariane_sdk.ReceiveConsumer.batches``."""
        while True:
            batch = self.receive_batch(count_max)
            if batch:
                yield batch

    def receive(
        self, count_max: int = _receive_consumer.RECEIVE_COUNT_DEFAULT
    ) -> Iterator[ReceivedMessage]:
        """Messages without end; see ``ariane_sdk.ReceiveConsumer.receive``."""
        for batch in self.batches(count_max):
            left = batch[::-1]
            try:
                while left and self._client.is_held(left[-1]):
                    yield left.pop()
            finally:
                if left:
                    self.give_back(*left)
