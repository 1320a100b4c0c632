"""A receiving consumer that waits for what it does."""

from __future__ import annotations

from collections.abc import Mapping

from ariane_sdk.checks.sql_filter import Sql
from ariane_sdk.client.stateless_client import CALL_TIMEOUT_S
from ariane_sdk.consumer import receive_consumer as _receive_consumer
from ariane_sdk.routing.name_servers import NameServerAddresses
from ariane_sdk.runtime.blocking import BlockingClient, blocking, blocking_iterator


class ReceiveConsumer(BlockingClient[_receive_consumer.ReceiveConsumer]):
    """Receives messages without owning queues, and settles them one by one."""

    def __init__(
        self,
        name_servers: NameServerAddresses,
        *,
        group: str,
        subscriptions: Mapping[str, str | Sql],
        invisible_s: float = 60.0,
        from_oldest: bool = True,
        by_priority: bool = False,
        call_timeout_s: float = CALL_TIMEOUT_S,
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
                call_timeout_s=call_timeout_s,
            )
        )

    receive_batch = blocking(_receive_consumer.ReceiveConsumer.receive_batch)
    batches = blocking_iterator(_receive_consumer.ReceiveConsumer.batches)
    receive = blocking_iterator(_receive_consumer.ReceiveConsumer.receive)
    ack = blocking(_receive_consumer.ReceiveConsumer.ack)
    nack = blocking(_receive_consumer.ReceiveConsumer.nack)
    extend = blocking(_receive_consumer.ReceiveConsumer.extend)
