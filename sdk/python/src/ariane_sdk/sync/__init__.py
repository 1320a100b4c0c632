"""The same clients for programs without an event loop: every call waits for its result.

::

    from ariane_sdk.sync import Message, Producer

    with Producer("127.0.0.1:9876") as producer:
        producer.send(Message("orders", b"..."))

Each client has an event loop in a thread of its own and may be used from any thread. Clients do not
survive a fork: in a child, a client of the parent raises ``ClientForked``.
"""

from ariane_record.decoding.columns import RecordColumns
from ariane_record.layout import Host
from ariane_record.single.compression import Compression
from ariane_sdk.checks.local_filter import Local
from ariane_sdk.checks.property_names import RESERVED_PROPERTIES
from ariane_sdk.checks.sql_filter import Sql
from ariane_sdk.checks.uploaded_filter import Uploaded
from ariane_sdk.client.conflicts import ConflictSide, SubscriptionConflict
from ariane_sdk.client.listener import Listener
from ariane_sdk.cluster.dead_letters import DeadLetter, DeadLetterChunk, DeadLetterFilter, Redrive
from ariane_sdk.cluster.group_report import (
    GroupMember,
    MemberKind,
    MembersByGroup,
    QueueHold,
    QueueLag,
    StreamQuery,
)
from ariane_sdk.cluster.offset_resets import ResetTarget
from ariane_sdk.cluster.sinks import SinkDeleted, SinkMoved, SinkReport
from ariane_sdk.consumer.group.allocation import (
    AllocationStrategy,
    Averaging,
    CircularAveraging,
    Configured,
    GroupFacts,
)
from ariane_sdk.consumer.group.consistent_hash import ConsistentHash
from ariane_sdk.consumer.group.consumer_plan import MessageModel
from ariane_sdk.consumer.group.machine_room import MachineRoom, MachineRoomNearby
from ariane_sdk.consumer.group.sticky import Sticky
from ariane_sdk.consumer.offsets.start_position import StartPosition
from ariane_sdk.consumer.receiving.message_listener import MessageListener
from ariane_sdk.message import AcknowledgedLevel, Message, Receipt, ReceivedMessage, SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.topic_info import QueueSelector
from ariane_sdk.producer.transactions.transaction import (
    HalfMessage,
    TransactionCheck,
    TransactionChecker,
    TransactionOutcome,
)
from ariane_sdk.reading.pulled_messages import PulledMessages
from ariane_sdk.reading.queue_reader import TimeBoundary
from ariane_sdk.routing.live_broker import LiveBroker
from ariane_sdk.routing.name_servers import NameServerAddresses
from ariane_sdk.routing.route import BrokerRoute, Route
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.security import CredentialsGiven, Tls, TlsGiven
from ariane_sdk.settings import (
    Breaker,
    ConsumerSettings,
    ProducerSettings,
    PullSettings,
    PushSettings,
    QueueNotice,
)
from ariane_sdk.sync._cluster_client import ClusterClient
from ariane_sdk.sync._dead_letters import DeadLetters
from ariane_sdk.sync._producer import Producer
from ariane_sdk.sync._pull_consumer import PullConsumer
from ariane_sdk.sync._push_consumer import PushConsumer
from ariane_sdk.sync._queue_reader import QueueReader
from ariane_sdk.sync._receive_consumer import ReceiveConsumer
from ariane_sdk.sync._transaction import Transaction

__all__ = [
    "RESERVED_PROPERTIES",
    "AcknowledgedLevel",
    "AllocationStrategy",
    "Averaging",
    "Breaker",
    "BrokerRoute",
    "CircularAveraging",
    "Clock",
    "ClusterClient",
    "Compression",
    "Configured",
    "ConflictSide",
    "ConsistentHash",
    "ConsumerSettings",
    "CredentialsGiven",
    "DeadLetter",
    "DeadLetterChunk",
    "DeadLetterFilter",
    "DeadLetters",
    "GroupFacts",
    "GroupMember",
    "HalfMessage",
    "Host",
    "Listener",
    "LiveBroker",
    "Local",
    "MachineRoom",
    "MachineRoomNearby",
    "MemberKind",
    "MembersByGroup",
    "Message",
    "MessageListener",
    "MessageModel",
    "MessageQueue",
    "NameServerAddresses",
    "Producer",
    "ProducerSettings",
    "PullConsumer",
    "PullSettings",
    "PulledMessages",
    "PushConsumer",
    "PushSettings",
    "QueueHold",
    "QueueLag",
    "QueueNotice",
    "QueueReader",
    "QueueSelector",
    "Receipt",
    "ReceiveConsumer",
    "ReceivedMessage",
    "RecordColumns",
    "Redrive",
    "ResetTarget",
    "Route",
    "SendResult",
    "SinkDeleted",
    "SinkMoved",
    "SinkReport",
    "Sql",
    "StartPosition",
    "Sticky",
    "StreamQuery",
    "SubscriptionConflict",
    "TimeBoundary",
    "Tls",
    "TlsGiven",
    "Transaction",
    "TransactionCheck",
    "TransactionChecker",
    "TransactionOutcome",
    "Uploaded",
]
