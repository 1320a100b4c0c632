"""For whom calls to brokers are made: brokers judge the rights of that user, not the gateway's."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from ariane_sdk import Tls

USER: Final[ContextVar[str]] = ContextVar("gateway_user", default="")
"""The user of the call in work; empty where nobody says who he is. Tasks of a call inherit it."""

ClusterTls: TypeAlias = Tls | Literal[False]
"""Certificates for connections to the cluster; False for plain text, in which nobody acts."""


def acting(tls: ClusterTls) -> ClusterTls:
    """The same, for calls that are made for the user of the call in work."""
    return tls and replace(tls, acting_for=USER.get)


def acting_as(tls: ClusterTls, user: str) -> ClusterTls:
    """The same, for calls that are all made for one user."""
    return tls and replace(tls, acting_for=lambda: user)
