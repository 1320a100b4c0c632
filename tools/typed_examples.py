"""What pages show users, strictly typed: ``make check`` has mypy judge it, and tests run it."""

from __future__ import annotations

from ariane_sdk import PushConsumer, ReceivedMessage
from ariane_sdk import sync as blocking
from ariane_sdk.sql import Inbox

ADDRESS = "127.0.0.1:9876"


async def listen(messages: list[ReceivedMessage]) -> None:
    """A listener on the loop."""
    print(len(messages))


def listen_in_threads(messages: list[ReceivedMessage]) -> None:
    """A listener in threads."""
    print(len(messages))


def consumers() -> list[PushConsumer | blocking.PushConsumer]:
    """Consumers whose listeners take lists, as pages say."""
    orders = {"orders": "*"}
    return [
        PushConsumer(ADDRESS, group="books", subscriptions=orders, listener=listen),
        PushConsumer(ADDRESS, group="books", subscriptions=orders, listener=listen_in_threads),
        blocking.PushConsumer(
            ADDRESS, group="books", subscriptions=orders, listener=listen_in_threads
        ),
    ]


def inboxes() -> list[Inbox]:
    """Inboxes with any function of a message as their key."""
    return [
        Inbox("books", key=lambda message: message.keys[0]),
        Inbox("books", key=lambda message: message.unique_id),
    ]
