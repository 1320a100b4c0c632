"""The Python client of ArianeMQ."""

import ariane_sdk._before_grpc  # noqa: F401 - it must come before whatever imports gRPC.

# isort: split
from ariane_record.compression import Compression
from ariane_sdk._allocation import (
    AllocationStrategy,
    Averaging,
    CircularAveraging,
    Configured,
    GroupFacts,
)
from ariane_sdk._cluster_client import ClusterClient
from ariane_sdk._conflicts import ConflictSide, SubscriptionConflict
from ariane_sdk._consistent_hash import ConsistentHash
from ariane_sdk._dead_letters import DeadLetter, DeadLetterFilter, DeadLetters, Redrive
from ariane_sdk._group_report import GroupMember, QueueLag
from ariane_sdk._live_broker import LiveBroker
from ariane_sdk._machine_room import MachineRoom, MachineRoomNearby
from ariane_sdk._message import (
    AcknowledgedLevel,
    Message,
    MessageQueue,
    ReceivedMessage,
    SendResult,
)
from ariane_sdk._producer import Producer
from ariane_sdk._pull_consumer import PullConsumer
from ariane_sdk._push_consumer import PushConsumer
from ariane_sdk._queue_reader import QueueReader, TimeBoundary
from ariane_sdk._route import BrokerRoute, Route
from ariane_sdk._settings import ConsumerSettings, ProducerSettings
from ariane_sdk._status import error_from_rpc
from ariane_sdk._sticky import Sticky
from ariane_sdk._transaction import (
    HalfMessage,
    TransactionCheck,
    TransactionChecker,
    TransactionOutcome,
)
from ariane_sdk._transaction_block import Transaction

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
