"""For whom calls to brokers are made: brokers judge the rights of that user, not the gateway's."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from ariane_sdk import Tls
from ariane_servicekit.security.identity.identify import ADDRESS_MARK

USER: Final[ContextVar[str]] = ContextVar("gateway_user", default="")
"""The user of the call in work, with his address where his rights depend on it; empty where nobody
says who he is. Tasks of a call inherit it. Calls of the same user travel together, so that an
address that makes no difference is left out."""

ClusterTls: TypeAlias = Tls | Literal[False]
"""Certificates for connections to the cluster; False for plain text, in which nobody acts."""


def acted_for(user: str, address: str = "") -> str:
    """What members of the cluster are told of a user.

    Args:
        user: The user; empty for nobody.
        address: Its address and port; empty where its rights do not depend on it.
    """
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]").partition("%")[0]
    return f"{user}{ADDRESS_MARK}{host}" if user and host else user


def acting(tls: ClusterTls) -> ClusterTls:
    """The same, for calls that are made for the user of the call in work."""
    return tls and replace(tls, acting_for=USER.get)


def acting_as(tls: ClusterTls, user: str) -> ClusterTls:
    """The same, for calls that are all made for one user."""
    return tls and replace(tls, acting_for=lambda: user)
