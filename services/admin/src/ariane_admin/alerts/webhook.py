"""Tells alerts to an address of somebody else's. Its URL may hold a secret: no log names it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Final

from urllib3 import PoolManager, Retry
from urllib3.exceptions import HTTPError

TRIES_AGAIN: Final = 4
CALL_S_MAX: Final = 10.0

_AGAIN: Final = (429, 500, 502, 503, 504)
_OK_MAX: Final = 299


class WebhookFailed(Exception):
    """The webhook did not take it, after all tries."""


class Webhook:
    """Posts JSON, again after growing pauses where that may help.

    Args:
        url: Where to.
        backoff_s: The pause after the second try, in seconds; it doubles.
    """

    def __init__(self, url: str, *, backoff_s: float = 0.5) -> None:
        self._url = url
        retry = Retry(
            total=TRIES_AGAIN,
            backoff_factor=backoff_s,
            status_forcelist=_AGAIN,
            allowed_methods={"POST"},
            redirect=0,
            raise_on_redirect=False,
            raise_on_status=False,
        )
        self._pool = PoolManager(retries=retry, timeout=CALL_S_MAX)

    async def tell(self, event: Mapping[str, object]) -> None:
        """Post one event.

        Raises:
            WebhookFailed: It was not taken; the text has no part of the URL.
        """
        await asyncio.to_thread(self._post, json.dumps(event).encode())

    def _post(self, body: bytes) -> None:
        headers = {"Content-Type": "application/json"}
        try:
            answer = self._pool.request("POST", self._url, body=body, headers=headers)
        except HTTPError as error:
            # Its text has the address.
            raise WebhookFailed(type(error).__name__) from None
        if not 200 <= answer.status <= _OK_MAX:
            raise WebhookFailed(f"status {answer.status}")
