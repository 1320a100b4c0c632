"""Services of the contract whose rooms are still empty: listed, and refused by name.

Nothing pretends to work: each method answers FEATURE_NOT_AVAILABLE.
"""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from typing import Any, NoReturn

from ariane.broker.v1.receive_service_pb2_grpc import ReceiveServiceServicer
from ariane_servicekit import feature_not_available


class ReceiveServicer(ReceiveServiceServicer):
    """Receiving without owning queues."""

    def ReceiveMessages(self, request: Any, context: Any) -> NoReturn:
        """Refuse."""
        raise feature_not_available("receiving messages without owning queues")

    def AckMessages(self, request: Any, context: Any) -> NoReturn:
        """Refuse."""
        raise feature_not_available("acknowledging messages one by one")

    def ChangeInvisibleDuration(self, request: Any, context: Any) -> NoReturn:
        """Refuse."""
        raise feature_not_available("changing how long a message is invisible")
