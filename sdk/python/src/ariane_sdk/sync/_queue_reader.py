"""A reader of queues with blocking calls."""

from __future__ import annotations

from ariane_sdk.client.stateless_client import CALL_TIMEOUT_S
from ariane_sdk.reading import queue_reader as _queue_reader
from ariane_sdk.routing.failover import PATIENCE_S
from ariane_sdk.routing.name_servers import NameServerAddresses
from ariane_sdk.runtime.blocking import BlockingClient, blocking, blocking_iterator
from ariane_sdk.security import CredentialsGiven, TlsGiven


class QueueReader(BlockingClient[_queue_reader.QueueReader]):
    """Reads ranges of queues, their bounds, and the offsets of groups."""

    def __init__(
        self,
        name_servers: NameServerAddresses | None = None,
        *,
        replicas: bool = False,
        fail_on_lost_messages: bool = False,
        call_timeout_s: float = CALL_TIMEOUT_S,
        patience_s: float = PATIENCE_S,
        tls: TlsGiven = None,
        credentials: CredentialsGiven = None,
    ) -> None:
        """Set up; see ``ariane_sdk.QueueReader``."""
        reader = _queue_reader.QueueReader(
            name_servers,
            replicas=replicas,
            fail_on_lost_messages=fail_on_lost_messages,
            call_timeout_s=call_timeout_s,
            patience_s=patience_s,
            tls=tls,
            credentials=credentials,
        )
        super().__init__(reader)

    @property
    def lost_message_count(self) -> int:
        """How many messages were passed over because the broker has lost them: damaged records."""
        return self._client.lost_message_count

    bounds = blocking(_queue_reader.QueueReader.bounds)
    offsets_at = blocking(_queue_reader.QueueReader.offsets_at)
    stored_offsets = blocking(_queue_reader.QueueReader.stored_offsets)
    store_offsets = blocking(_queue_reader.QueueReader.store_offsets)
    pull = blocking(_queue_reader.QueueReader.pull)
    read_range = blocking_iterator(_queue_reader.QueueReader.read_range)
    pull_columns = blocking_iterator(_queue_reader.QueueReader.pull_columns)
    find_message = blocking(_queue_reader.QueueReader.find_message)
    query_messages = blocking_iterator(_queue_reader.QueueReader.query_messages)
    messages_between = blocking_iterator(_queue_reader.QueueReader.messages_between)
