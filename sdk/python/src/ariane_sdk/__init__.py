"""The Python client of ArianeMQ."""

from typing import TYPE_CHECKING

import ariane_sdk.errors  # noqa: F401 - It is found without an import of its own.

if TYPE_CHECKING:
    from ariane_record.decoding.columns import RecordColumns as RecordColumns
    from ariane_record.layout import Host as Host
    from ariane_record.single.compression import Compression as Compression
    from ariane_sdk.checks.local_filter import Local as Local
    from ariane_sdk.checks.property_names import RESERVED_PROPERTIES as RESERVED_PROPERTIES
    from ariane_sdk.checks.sql_filter import Sql as Sql
    from ariane_sdk.checks.uploaded_filter import Uploaded as Uploaded
    from ariane_sdk.client.listener import Listener as Listener
    from ariane_sdk.cluster.cluster_client import ClusterClient as ClusterClient
    from ariane_sdk.cluster.conflicts import ConflictSide as ConflictSide
    from ariane_sdk.cluster.conflicts import SubscriptionConflict as SubscriptionConflict
    from ariane_sdk.cluster.dead_letters import DeadLetter as DeadLetter
    from ariane_sdk.cluster.dead_letters import DeadLetterChunk as DeadLetterChunk
    from ariane_sdk.cluster.dead_letters import DeadLetterFilter as DeadLetterFilter
    from ariane_sdk.cluster.dead_letters import DeadLetters as DeadLetters
    from ariane_sdk.cluster.dead_letters import Redrive as Redrive
    from ariane_sdk.cluster.group_report import GroupMember as GroupMember
    from ariane_sdk.cluster.group_report import MemberKind as MemberKind
    from ariane_sdk.cluster.group_report import MembersByGroup as MembersByGroup
    from ariane_sdk.cluster.group_report import QueueHold as QueueHold
    from ariane_sdk.cluster.group_report import QueueLag as QueueLag
    from ariane_sdk.cluster.group_report import StreamQuery as StreamQuery
    from ariane_sdk.cluster.offset_resets import ResetTarget as ResetTarget
    from ariane_sdk.cluster.sinks import SinkDeleted as SinkDeleted
    from ariane_sdk.cluster.sinks import SinkMoved as SinkMoved
    from ariane_sdk.cluster.sinks import SinkReport as SinkReport
    from ariane_sdk.consumer.group.allocation import AllocationStrategy as AllocationStrategy
    from ariane_sdk.consumer.group.allocation import Averaging as Averaging
    from ariane_sdk.consumer.group.allocation import CircularAveraging as CircularAveraging
    from ariane_sdk.consumer.group.allocation import Configured as Configured
    from ariane_sdk.consumer.group.allocation import GroupFacts as GroupFacts
    from ariane_sdk.consumer.group.consistent_hash import ConsistentHash as ConsistentHash
    from ariane_sdk.consumer.group.consumer_plan import MessageModel as MessageModel
    from ariane_sdk.consumer.group.machine_room import MachineRoom as MachineRoom
    from ariane_sdk.consumer.group.machine_room import MachineRoomNearby as MachineRoomNearby
    from ariane_sdk.consumer.group.sticky import Sticky as Sticky
    from ariane_sdk.consumer.offsets.start_position import StartPosition as StartPosition
    from ariane_sdk.consumer.pull_consumer import PullConsumer as PullConsumer
    from ariane_sdk.consumer.push_consumer import PushConsumer as PushConsumer
    from ariane_sdk.consumer.receive_consumer import ReceiveConsumer as ReceiveConsumer
    from ariane_sdk.consumer.receiving.message_listener import MessageListener as MessageListener
    from ariane_sdk.message import AcknowledgedLevel as AcknowledgedLevel
    from ariane_sdk.message import Message as Message
    from ariane_sdk.message import Receipt as Receipt
    from ariane_sdk.message import ReceivedMessage as ReceivedMessage
    from ariane_sdk.message import SendResult as SendResult
    from ariane_sdk.message_queue import MessageQueue as MessageQueue
    from ariane_sdk.producer.accumulator.topic_info import QueueSelector as QueueSelector
    from ariane_sdk.producer.producer import Producer as Producer
    from ariane_sdk.producer.transactions.transaction import HalfMessage as HalfMessage
    from ariane_sdk.producer.transactions.transaction import TransactionCheck as TransactionCheck
    from ariane_sdk.producer.transactions.transaction import (
        TransactionChecker as TransactionChecker,
    )
    from ariane_sdk.producer.transactions.transaction import (
        TransactionOutcome as TransactionOutcome,
    )
    from ariane_sdk.producer.transactions.transaction_block import Transaction as Transaction
    from ariane_sdk.reading.pulled_messages import PulledMessages as PulledMessages
    from ariane_sdk.reading.queue_reader import QueueReader as QueueReader
    from ariane_sdk.reading.queue_reader import TimeBoundary as TimeBoundary
    from ariane_sdk.release import __version__ as __version__
    from ariane_sdk.routing.live_broker import LiveBroker as LiveBroker
    from ariane_sdk.routing.name_servers import NameServerAddresses as NameServerAddresses
    from ariane_sdk.routing.route import BrokerRoute as BrokerRoute
    from ariane_sdk.routing.route import Route as Route
    from ariane_sdk.runtime.clock import Clock as Clock
    from ariane_sdk.security import CredentialsGiven as CredentialsGiven
    from ariane_sdk.security import Tls as Tls
    from ariane_sdk.security import TlsGiven as TlsGiven
    from ariane_sdk.settings import Breaker as Breaker
    from ariane_sdk.settings import ConsumerSettings as ConsumerSettings
    from ariane_sdk.settings import ProducerSettings as ProducerSettings
    from ariane_sdk.settings import PullSettings as PullSettings
    from ariane_sdk.settings import PushSettings as PushSettings
    from ariane_sdk.settings import QueueNotice as QueueNotice
else:
    from ariane_sdk.public_names import found as __getattr__  # noqa: F401 - as well.
    from ariane_sdk.public_names import listed as __all__  # noqa: F401 - Python looks for it.
    from ariane_sdk.public_names import names as __dir__  # noqa: F401 - as well.
