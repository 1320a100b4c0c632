"""Answers to calls, taken in the turn of the loop in which they come, without a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

from grpc.aio import AioRpcError

from ariane_sdk.errors import CallError
from ariane_sdk.net.status import error_from_rpc

AnswerT_co = TypeVar("AnswerT_co", covariant=True)


class Call(Protocol[AnswerT_co]):
    """A call with one answer."""

    def __await__(self) -> Generator[Any, None, AnswerT_co]:
        """Wait for the answer.

        Raises:
            AioRpcError: It failed.
        """
        ...

    def result(self) -> AnswerT_co:
        """The answer of a call that is over.

        Raises:
            AioRpcError: It failed.
            asyncio.CancelledError: This client gave it up.
        """
        ...

    def add_done_callback(self, callback: Callable[[Any], None], /) -> None:
        """Call back when the call is over, at once if it is."""
        ...

    def cancel(self) -> bool:
        """Give the call up."""
        ...


def failure_of(error: BaseException, peer: str) -> CallError:
    """The error for what ``Call.result`` has raised.

    Args:
        error: What it has raised.
        peer: The called service, for the text.
    """
    if isinstance(error, AioRpcError):
        return error_from_rpc(error, peer=peer)
    if isinstance(error, asyncio.CancelledError):
        return CallError("the client is closed", outcome_unknown=True, retriable=True)
    return CallError(f"{peer}: {error}", outcome_unknown=True)
