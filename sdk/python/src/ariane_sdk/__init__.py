"""The Python client of ArianeMQ."""

import ariane_sdk.runtime.before_grpc  # noqa: F401 - it must come before whatever imports gRPC.

# isort: split
from ariane_record.single.compression import Compression
from ariane_sdk.client.conflicts import ConflictSide, SubscriptionConflict
from ariane_sdk.cluster.cluster_client import ClusterClient
from ariane_sdk.cluster.dead_letters import DeadLetter, DeadLetterFilter, DeadLetters, Redrive
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
from ariane_sdk.consumer.pull_consumer import PullConsumer
from ariane_sdk.consumer.push_consumer import PushConsumer
from ariane_sdk.message import (
    AcknowledgedLevel,
    Message,
    MessageQueue,
    ReceivedMessage,
    SendResult,
)
from ariane_sdk.net.status import error_from_rpc
from ariane_sdk.producer.producer import Producer
from ariane_sdk.producer.transactions.transaction import (
    HalfMessage,
    TransactionCheck,
    TransactionChecker,
    TransactionOutcome,
)
from ariane_sdk.producer.transactions.transaction_block import Transaction
from ariane_sdk.reading.queue_reader import QueueReader, TimeBoundary
from ariane_sdk.routing.live_broker import LiveBroker
from ariane_sdk.routing.route import BrokerRoute, Route
from ariane_sdk.settings import ConsumerSettings, ProducerSettings

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
