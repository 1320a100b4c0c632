"""The same clients for programs without an event loop: every call waits for its outcome.

::

    from ariane_sdk.sync import Message, Producer

    with Producer("127.0.0.1:9876") as producer:
        producer.send(Message("orders", b"..."))

Each client has an event loop in a thread of its own and may be used from any thread. Clients do not
survive a fork: a child that touches one of its parent's is told so, and makes its own.
"""

from ariane_record.single.compression import Compression
from ariane_sdk.client.conflicts import ConflictSide, SubscriptionConflict
from ariane_sdk.cluster.dead_letters import DeadLetter, DeadLetterFilter, Redrive
from ariane_sdk.cluster.group_report import GroupMember, QueueLag
from ariane_sdk.consumer.group.allocation import (
    AllocationStrategy,
    Averaging,
    CircularAveraging,
    Configured,
    GroupFacts,
)
from ariane_sdk.consumer.group.consistent_hash import ConsistentHash
from ariane_sdk.consumer.group.machine_room import MachineRoom, MachineRoomNearby
from ariane_sdk.consumer.group.sticky import Sticky
from ariane_sdk.message import (
    AcknowledgedLevel,
    Message,
    MessageQueue,
    ReceivedMessage,
    SendResult,
)
from ariane_sdk.net.status import error_from_rpc
from ariane_sdk.producer.transactions.transaction import (
    HalfMessage,
    TransactionCheck,
    TransactionChecker,
    TransactionOutcome,
)
from ariane_sdk.reading.queue_reader import TimeBoundary
from ariane_sdk.routing.live_broker import LiveBroker
from ariane_sdk.routing.route import BrokerRoute, Route
from ariane_sdk.settings import ConsumerSettings, ProducerSettings
from ariane_sdk.sync._cluster_client import ClusterClient
from ariane_sdk.sync._dead_letters import DeadLetters
from ariane_sdk.sync._producer import Producer
from ariane_sdk.sync._pull_consumer import PullConsumer
from ariane_sdk.sync._push_consumer import PushConsumer
from ariane_sdk.sync._queue_reader import QueueReader
from ariane_sdk.sync._transaction import Transaction

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
