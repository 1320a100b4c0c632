"""Which public names stand on which page of the API's reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ApiPage:
    """A page of the reference."""

    title: str
    opening: str
    """In reStructuredText."""
    module: str
    """Whose names it shows."""
    names: tuple[str, ...] = ()
    """In the order in which they are shown; none: all that no other page shows."""


PAGES: Final[Mapping[str, ApiPage]] = {
    "sending": ApiPage(
        "Send messages",
        "A producer, the messages that it sends, and what it answers.",
        "ariane_sdk",
        (
            *("Producer", "ProducerSettings", "Message", "SendResult", "AcknowledgedLevel"),
            *("MessageQueue", "QueueSelector", "Compression", "RESERVED_PROPERTIES"),
        ),
    ),
    "transactions": ApiPage(
        "Transactions",
        "Messages that are delivered if a local transaction commits.",
        "ariane_sdk",
        (
            *("Transaction", "HalfMessage", "TransactionOutcome", "TransactionChecker"),
            "TransactionCheck",
        ),
    ),
    "consuming": ApiPage(
        "Consume messages",
        "Three kinds of consumers: messages are pushed to a listener, received by receipts, or"
        " pulled by queue.",
        "ariane_sdk",
        (
            *("PushConsumer", "PushSettings", "Listener", "ReceiveConsumer", "MessageListener"),
            *("Receipt", "PullConsumer", "PullSettings", "ConsumerSettings", "ReceivedMessage"),
            *("MessageModel", "StartPosition", "Sql", "Uploaded", "Local"),
        ),
    ),
    "allocation": ApiPage(
        "Share queues among members",
        "How a group's members decide which of them consumes which queue.",
        "ariane_sdk",
        (
            *("AllocationStrategy", "Averaging", "CircularAveraging", "Sticky", "ConsistentHash"),
            *("Configured", "MachineRoom", "MachineRoomNearby", "GroupFacts"),
        ),
    ),
    "reading": ApiPage(
        "Read by position",
        "Messages of queues without a group, one by one or as columns.",
        "ariane_sdk",
        ("QueueReader", "TimeBoundary", "RecordColumns"),
    ),
    "cluster": ApiPage(
        "Look at a cluster, and change it",
        "Topics, groups, offsets, dead letters and sinks, for operators and their programs.",
        "ariane_sdk",
    ),
    "errors": ApiPage(
        "Errors",
        "All of them are ``ArianeError``. :doc:`/errors` lists the reasons of refused calls.",
        "ariane_sdk.errors",
    ),
    "sql": ApiPage(
        "Outbox, inbox and outcomes in SQL",
        "Effects that happen once. :doc:`/exactly-once` says which of them to use when.",
        "ariane_sdk.sql",
    ),
    "redis": ApiPage(
        "Inbox in Redis",
        "Effects in the application's own Redis happen once: see :doc:`/exactly-once`.",
        "ariane_sdk.redis",
    ),
    "sync": ApiPage(
        "Without asyncio",
        "The same classes for programs without an event loop. Each runs one in a thread of its own."
        " Names that are not listed here are those of ``ariane_sdk``.",
        "ariane_sdk.sync",
    ),
    "tables": ApiPage(
        "Tables of messages",
        "Send Arrow tables as messages.",
        "ariane_sdk.message_tables",
    ),
    "translation": ApiPage(
        "Beside generated stubs",
        "Between messages of the contract and objects of the SDK, for programs that call services"
        " without a client.",
        "ariane_sdk.translation",
    ),
    "testing": ApiPage(
        "Brokers in tests",
        "What the fixtures of :doc:`pytest-ariane </sdk/pytest-ariane/index>` are.",
        "pytest_ariane",
        ("cluster.InProcessCluster", "faults.Faults", "forward_clock.ForwardClock"),
    ),
}
"""By name below ``api/``."""
