"""One method of a service as a channel calls it: what is the same for each of its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from grpc.aio import ClientInterceptor, Metadata

from ariane_wire.protocol.headers.header_fields import METHOD_POST, literal, path, timeout_field
from ariane_wire.protocol.headers.metadata import encode_metadata

BLOCKS_MAX: Final = 64
"""Timeouts whose blocks are kept: callers use few."""


class Method:
    """A method."""

    __slots__ = (
        "_blocks",
        "_channel_fields",
        "_lead",
        "deserializer",
        "interceptors",
        "path",
        "serializer",
    )

    def __init__(
        self,
        method: str | bytes,
        serializer: Callable[[Any], bytes] | None,
        deserializer: Callable[[bytes], Any] | None,
        channel_fields: bytes,
        interceptors: list[ClientInterceptor],
    ) -> None:
        self.path = method.decode() if isinstance(method, bytes) else method
        """"/package.Service/Method"."""
        self.serializer = serializer
        """None for requests that are octets."""
        self.deserializer = deserializer
        self.interceptors = interceptors
        self._channel_fields = channel_fields
        self._lead = METHOD_POST + path(self.path) + channel_fields
        self._blocks: dict[float | None, bytes] = {None: self._lead}

    def at(self, method: str | bytes) -> Method:
        """The same, under another path if an interceptor has changed it."""
        path_ = method.decode() if isinstance(method, bytes) else method
        if path_ == self.path:
            return self
        return Method(path_, self.serializer, self.deserializer, self._channel_fields, [])

    def block(
        self,
        timeout_s: float | None,
        metadata: Metadata | Iterable[tuple[str, str | bytes]] | None,
        encoding: str = "identity",
    ) -> bytes:
        """The header block of a call.

        Raises:
            ValueError: Metadata cannot be sent.
        """
        block = self._blocks.get(timeout_s)
        if block is None:
            block = self._lead
            if timeout_s is not None and timeout_s > 0:
                block += timeout_field(timeout_s)
            if len(self._blocks) < BLOCKS_MAX:
                self._blocks[timeout_s] = block
        if encoding != "identity":
            block += literal(b"grpc-encoding", encoding.encode())
        if metadata:
            block += encode_metadata(metadata)
        return block
