"""A client as brokers are told of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Wanted(NamedTuple):
    """Which messages of a topic a consumer wants."""

    topic: str
    """The topic."""
    filter_text: str = ""
    """A list of tags, or a condition; empty for all."""
    is_condition: bool = False
    """Whether it is a SQL92 condition."""


class Portrait(NamedTuple):
    """Who a client is, and what it does."""

    client_id: str
    """Its id."""
    language: str
    """What it is written in."""
    version: str
    """The version of its library."""
    address: str
    """Where it calls from."""
    user: str
    """The user that it signs as; empty where nobody asks."""
    reachable: bool
    """Whether it has an open stream here."""
    produces: tuple[str, ...]
    """Topics that it produces to; it can be asked about their transactions."""
    consumes: Mapping[str, tuple[Wanted, ...]]
    """What it wants, by consumer group."""
