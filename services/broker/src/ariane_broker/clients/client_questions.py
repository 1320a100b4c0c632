"""Questions to attached clients over their streams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from ariane_broker.clients.attached_client import AttachedClient
from ariane_broker.clients.outbox import Notice
from ariane_broker.errors.public_errors import client_left, client_silent
from ariane_servicekit.errors import field_invalid


class _Open(NamedTuple):
    """A question that waits for its answer."""

    client: AttachedClient
    answer: asyncio.Future[Any]
    if_silent: str


class ClientQuestions:
    """Questions that wait for an answer."""

    def __init__(self, *, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._open: dict[str, _Open] = {}

    async def ask(
        self,
        client: AttachedClient,
        question: Callable[[str], Notice],
        wait_seconds: float,
        *,
        wait_seconds_max: float,
        if_silent: str,
    ) -> Any:
        """Ask a client, and return its answer.

        Args:
            client: The client.
            question: Makes the question from its id.
            wait_seconds: How long to wait for the answer, above 0.
            wait_seconds_max: The longest wait that a caller may ask for.
            if_silent: Advice in words, for a client that does not answer.

        Raises:
            ServiceError: FIELD_INVALID, or CLIENT_SILENT when it does not answer or leaves first.
        """
        if wait_seconds > wait_seconds_max:
            rule = f"must be at most {wait_seconds_max:.0f} s"
            raise field_invalid("wait_duration", rule, f"{wait_seconds:g} s")
        if not client.outbox.is_open:
            raise client_left(client.client_id, if_silent)
        question_id = self._new_id()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._open[question_id] = _Open(client, answer, if_silent)
        client.outbox.put(question(question_id))
        try:
            async with asyncio.timeout(wait_seconds):
                return await answer
        except TimeoutError:
            raise client_silent(client.client_id, wait_seconds, if_silent) from None
        finally:
            del self._open[question_id]

    def answered(self, client: AttachedClient, question_id: str, answer: object) -> None:
        """Deliver an answer; it is dropped if no call waits for it any longer."""
        asked = self._open.get(question_id)
        if asked is None or asked.client.client_id != client.client_id:
            return
        if not asked.answer.done():
            asked.answer.set_result(answer)

    def left(self, client: AttachedClient) -> None:
        """Fail the calls that wait for answers of a client whose stream has ended."""
        for asked in self._open.values():
            if asked.client is client and not asked.answer.done():
                asked.answer.set_exception(client_left(client.client_id, asked.if_silent))
