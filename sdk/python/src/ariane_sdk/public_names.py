"""Where the names of this package are; each is loaded when it is first asked for.

A program that asks about the cluster loads neither numpy nor what sends and consumes: two thirds of
all that the package can do, and of the time to load it.
"""

from __future__ import annotations

from typing import Final

from ariane_record.late_names import LateNames

_HOMES: Final = {
    "ariane_record.decoding.columns": ("RecordColumns",),
    "ariane_record.layout": ("Host",),
    "ariane_record.single.compression": ("Compression",),
    "ariane_sdk.checks.property_names": ("RESERVED_PROPERTIES",),
    "ariane_sdk.checks.local_filter": ("Local",),
    "ariane_sdk.checks.sql_filter": ("Sql",),
    "ariane_sdk.checks.uploaded_filter": ("Uploaded",),
    "ariane_sdk.client.conflicts": ("ConflictSide", "SubscriptionConflict"),
    "ariane_sdk.client.listener": ("Listener",),
    "ariane_sdk.cluster.cluster_client": ("ClusterClient",),
    "ariane_sdk.cluster.dead_letters": (
        "DeadLetter",
        "DeadLetterChunk",
        "DeadLetterFilter",
        "DeadLetters",
        "Redrive",
    ),
    "ariane_sdk.cluster.group_report": ("GroupMember", "QueueHold", "QueueLag"),
    "ariane_sdk.cluster.offset_resets": ("ResetTarget",),
    "ariane_sdk.cluster.sinks": ("SinkDeleted", "SinkMoved", "SinkReport"),
    "ariane_sdk.consumer.group.allocation": (
        "AllocationStrategy",
        "Averaging",
        "CircularAveraging",
        "Configured",
        "GroupFacts",
    ),
    "ariane_sdk.consumer.group.consistent_hash": ("ConsistentHash",),
    "ariane_sdk.consumer.group.consumer_plan": ("MessageModel",),
    "ariane_sdk.consumer.group.machine_room": ("MachineRoom", "MachineRoomNearby"),
    "ariane_sdk.consumer.group.sticky": ("Sticky",),
    "ariane_sdk.consumer.offsets.start_position": ("StartPosition",),
    "ariane_sdk.consumer.pull_consumer": ("PullConsumer",),
    "ariane_sdk.consumer.push_consumer": ("PushConsumer",),
    "ariane_sdk.consumer.receive_consumer": ("ReceiveConsumer",),
    "ariane_sdk.consumer.receiving.message_listener": ("MessageListener",),
    "ariane_sdk.message": (
        "AcknowledgedLevel",
        "Message",
        "Receipt",
        "ReceivedMessage",
        "SendResult",
    ),
    "ariane_sdk.message_queue": ("MessageQueue",),
    "ariane_sdk.producer.accumulator.topic_lane": ("QueueSelector",),
    "ariane_sdk.producer.producer": ("Producer",),
    "ariane_sdk.producer.transactions.transaction": (
        "HalfMessage",
        "TransactionCheck",
        "TransactionChecker",
        "TransactionOutcome",
    ),
    "ariane_sdk.producer.transactions.transaction_block": ("Transaction",),
    "ariane_sdk.reading.pulled_messages": ("PulledMessages",),
    "ariane_sdk.reading.queue_reader": ("QueueReader", "TimeBoundary"),
    "ariane_sdk.routing.live_broker": ("LiveBroker",),
    "ariane_sdk.routing.name_servers": ("NameServerAddresses",),
    "ariane_sdk.routing.route": ("BrokerRoute", "Route"),
    "ariane_sdk.runtime.clock": ("Clock",),
    "ariane_sdk.release": ("__version__",),
    "ariane_sdk.security": ("CredentialsGiven", "Tls", "TlsGiven"),
    "ariane_sdk.settings": (
        "Breaker",
        "ConsumerSettings",
        "ProducerSettings",
        "PullSettings",
        "PushSettings",
        "QueueNotice",
    ),
}
_NAMES: Final = LateNames("ariane_sdk", _HOMES)
found = _NAMES.found
names = _NAMES.names
