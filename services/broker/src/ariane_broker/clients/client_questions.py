"""Asking an attached client over its stream what it does now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from ariane_broker.clients.attached_client import AttachedClient
from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.outbox import ClientStateAsked
from ariane_broker.errors import client_not_attached, client_silent
from ariane_servicekit.errors import field_invalid

WAIT_SECONDS_DEFAULT: Final = 3.0
WAIT_SECONDS_MAX: Final = 30.0


class ClientQuestions:
    """Questions that wait for an answer."""

    def __init__(self, clients: ClientTable, *, new_id: Callable[[], str]) -> None:
        """Ask nothing yet.

        Args:
            clients: The attached clients.
            new_id: Makes an id that no other question bears.
        """
        self._clients = clients
        self._new_id = new_id
        self._open: dict[str, tuple[str, asyncio.Future[Mapping[str, str]]]] = {}

    async def ask(self, client_id: str, wait_seconds: float) -> tuple[str, Mapping[str, str]]:
        """What the client says of itself, and the id of the question.

        Args:
            client_id: The client.
            wait_seconds: How long to wait for the answer; 0 means the default.

        Raises:
            ServiceError: CLIENT_NOT_ATTACHED, FIELD_INVALID, or DEADLINE_PASSED when it does not
                answer.
        """
        if wait_seconds > WAIT_SECONDS_MAX:
            rule = f"must be at most {WAIT_SECONDS_MAX:.0f} s"
            raise field_invalid("wait_duration", rule, f"{wait_seconds:g} s")
        client = self._clients.find(client_id)
        if client is None:
            raise client_not_attached(client_id, "")
        wait_seconds = wait_seconds or WAIT_SECONDS_DEFAULT
        question_id = self._new_id()
        answer: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        self._open[question_id] = (client_id, answer)
        client.outbox.put(ClientStateAsked(question_id))
        try:
            async with asyncio.timeout(wait_seconds):
                return question_id, await answer
        except TimeoutError:
            raise client_silent(client_id, wait_seconds) from None
        finally:
            del self._open[question_id]

    def answered(self, client: AttachedClient, question_id: str, facts: Mapping[str, str]) -> None:
        """A client said what it does; an answer that nobody waits for any longer is dropped."""
        client_id, answer = self._open.get(question_id, ("", None))
        if answer is not None and client_id == client.client_id and not answer.done():
            answer.set_result(facts)
