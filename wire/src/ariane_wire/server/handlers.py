"""Which handler answers which method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import grpc

from ariane_wire.protocol.heads import RequestHead
from ariane_wire.server.serving import CallDetails

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


class Handlers:
    """The methods of a server."""

    def __init__(self) -> None:
        self._by_method: dict[str, Handler] = {}
        self._tables: list[grpc.GenericRpcHandler] = []

    def add(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """Add the methods of a service, by their short names."""
        for name, handler in handlers.items():
            self._by_method[f"/{service}/{name}"] = handler

    def add_generic(self, tables: Iterable[grpc.GenericRpcHandler]) -> None:
        """Add tables, which are asked one after the other."""
        self._tables += tables

    def find(self, head: RequestHead) -> Handler | None:
        """The handler of a call; None if there is none."""
        handler = self._by_method.get(head.method)
        if handler is not None:
            return handler
        details: Any = CallDetails(head.method, head.metadata)
        for table in self._tables:
            found = table.service(details)
            if found is not None:
                return found
        return None
