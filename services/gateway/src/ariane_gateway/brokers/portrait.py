"""A client as brokers are told of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Wanted(NamedTuple):
    """Which messages of a topic a consumer wants.

    Attributes:
        topic: The topic.
        filter_text: A list of tags, or a condition; empty for all.
        is_condition: Whether it is a SQL92 condition.
    """

    topic: str
    filter_text: str = ""
    is_condition: bool = False


class Portrait(NamedTuple):
    """Who a client is, and what it does.

    Attributes:
        client_id: Its id.
        language: What it is written in.
        version: The version of its library.
        address: Where it calls from.
        user: The user that it signs as; empty where nobody asks.
        reachable: Whether it has an open stream here.
        produces: Topics that it produces to; it can be asked about their transactions.
        consumes: What it wants, by consumer group.
    """

    client_id: str
    language: str
    version: str
    address: str
    user: str
    reachable: bool
    produces: tuple[str, ...]
    consumes: Mapping[str, tuple[Wanted, ...]]
