"""Asking an attached client something over its stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ariane_broker.clients.attached_client import AttachedClient
from ariane_broker.clients.outbox import Notice
from ariane_broker.errors import client_silent
from ariane_servicekit.errors import field_invalid


class ClientQuestions:
    """Questions that wait for an answer."""

    def __init__(self, *, new_id: Callable[[], str]) -> None:
        """Ask nothing yet.

        Args:
            new_id: Makes an id that no other question bears.
        """
        self._new_id = new_id
        self._open: dict[str, tuple[str, asyncio.Future[Any]]] = {}

    async def ask(
        self,
        client: AttachedClient,
        question: Callable[[str], Notice],
        wait_seconds: float,
        *,
        wait_seconds_max: float,
        if_silent: str,
    ) -> Any:
        """What the client answers.

        Args:
            client: The client.
            question: Makes the question of its id.
            wait_seconds: How long to wait for the answer, above 0.
            wait_seconds_max: How long a caller may have it wait.
            if_silent: What to know of a client that does not answer, for people.

        Raises:
            ServiceError: FIELD_INVALID, or CLIENT_SILENT when it does not answer.
        """
        if wait_seconds > wait_seconds_max:
            rule = f"must be at most {wait_seconds_max:.0f} s"
            raise field_invalid("wait_duration", rule, f"{wait_seconds:g} s")
        question_id = self._new_id()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._open[question_id] = (client.client_id, answer)
        client.outbox.put(question(question_id))
        try:
            async with asyncio.timeout(wait_seconds):
                return await answer
        except TimeoutError:
            raise client_silent(client.client_id, wait_seconds, if_silent) from None
        finally:
            del self._open[question_id]

    def answered(self, client: AttachedClient, question_id: str, said: object) -> None:
        """A client answered; what nobody waits for any longer is dropped."""
        client_id, answer = self._open.get(question_id, ("", None))
        if answer is not None and client_id == client.client_id and not answer.done():
            answer.set_result(said)
