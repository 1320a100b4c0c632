"""Errors of this package.

::

    grpc.RpcError
    └── grpc.aio.AioRpcError
        └── CallFailed         a call ended with a status other than OK
    RuntimeError
    └── BindRefused            a server cannot listen where it should

Beside them: ``grpc.aio.UsageError`` and ``asyncio.InvalidStateError`` for calls in the wrong order,
``asyncio.CancelledError`` for calls that this end has cancelled, and ``ValueError`` for options and
metadata that cannot be.
"""

from __future__ import annotations

from typing import Any

from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata


class CallFailed(AioRpcError):
    """A call ended with a status other than OK."""

    def __init__(
        self,
        code: StatusCode,
        initial_metadata: Metadata | None = None,
        trailing_metadata: Metadata | None = None,
        details: str | None = None,
        debug_error_string: str | None = None,
        *,
        never_processed: bool = False,
        request_too_large: bool = False,
        size_octets: int | None = None,
        limit_octets: int | None = None,
    ) -> None:
        super().__init__(code, initial_metadata, trailing_metadata, details, debug_error_string)
        self.never_processed = never_processed
        """Whether the server has surely not begun to work on it: it was never written, or the
        server has refused it in advance. Such a call may be repeated, whatever it does.
        False where that is not known."""
        self.request_too_large = request_too_large
        """Whether it was refused because a message of the request is too long. The server has not
        read that message, but those of a stream before it."""
        self.size_octets = size_octets
        """Where something was too large, how large it was; else None."""
        self.limit_octets = limit_octets
        """And what would have been taken."""

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle: the base class forgets what it does not know."""
        state = {
            "never_processed": self.never_processed,
            "request_too_large": self.request_too_large,
            "size_octets": self.size_octets,
            "limit_octets": self.limit_octets,
        }
        return (*super().__reduce__(), state)


class BindRefused(RuntimeError):
    """A server cannot listen where it should: the message says where, and why."""
