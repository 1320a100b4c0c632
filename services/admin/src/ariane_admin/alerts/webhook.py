"""Sends alerts to a webhook. The URL may contain a secret: it never appears in logs."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

from urllib3 import PoolManager, Retry
from urllib3.exceptions import HTTPError

TRIES_AGAIN: Final = 1
CALL_S_MAX: Final = 5.0
"""Seconds of one try: to connect, and for each read."""

_AGAIN: Final = (429, 500, 502, 503, 504)
_OK_MAX: Final = 299

# Its log lines contain the URL's path.
logging.getLogger("urllib3").setLevel(logging.ERROR)


class WebhookFailed(Exception):
    """The webhook did not accept an event, after all tries."""


class Webhook:
    """Posts JSON, with one more try if that may help; the caller repeats the event later.

    Args:
        url: The webhook's URL.
        backoff_s: The pause before the second try, in seconds.
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
            # The server must not decide how long admin waits.
            respect_retry_after_header=False,
        )
        self._pool = PoolManager(retries=retry, timeout=CALL_S_MAX)

    async def send(self, event: Mapping[str, object]) -> None:
        """Post one event.

        Raises:
            WebhookFailed: It was not accepted; the text contains no part of the URL.
        """
        body = json.dumps(event).encode()
        posted: Future[None] = Future()
        posted.set_running_or_notify_cancel()

        def post() -> None:
            try:
                self._post(body)
            except BaseException as error:  # noqa: BLE001 - raised in the awaiting task
                posted.set_exception(error)
            else:
                posted.set_result(None)

        # A daemon thread, because a process waits for the threads of pools before it ends.
        threading.Thread(target=post, name="webhook", daemon=True).start()
        await asyncio.wrap_future(posted)

    def _post(self, body: bytes) -> None:
        headers = {"Content-Type": "application/json"}
        try:
            # The answer's body is not needed, and may have no end.
            answer = self._pool.request(
                "POST", self._url, body=body, headers=headers, preload_content=False
            )
            answer.close()
        except HTTPError as error:
            # The text of the error contains the address.
            raise WebhookFailed(type(error).__name__) from None
        if not 200 <= answer.status <= _OK_MAX:
            raise WebhookFailed(f"status {answer.status}")
