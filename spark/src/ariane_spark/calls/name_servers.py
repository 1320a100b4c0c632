"""The name servers of a query, some from sources that are read again; and answers that are kept."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from threading import Thread
from typing import Any, Final, TypeVar
from uuid import uuid4

from google.protobuf.message import DecodeError, Message

from ariane_sdk.errors import NameServersUnreachable
from ariane_wire import AddressSources

REREAD_S: Final = 30.0
"""How often sources are read again."""

_FOLDER: Final = "ariane-spark"

_AnswerT = TypeVar("_AnswerT", bound=Message)

_log: Final = logging.getLogger(__name__)


class NameServers:
    """Addresses in the order in which they are asked."""

    def __init__(self, endpoints: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Read no source yet.

        Args:
            endpoints: Addresses and sources, separated by commas.
            monotonic: Seconds.
        """
        self._sources = AddressSources(endpoints.split(","))
        self._monotonic = monotonic
        self._read_at_s = float("-inf")
        # Tasks start at the same time; they should not all ask the same name server first.
        self._order: list[str] = []
        self._follow()

    def in_turn(self) -> tuple[str, ...]:
        """All that are known now.

        Raises:
            NameServersUnreachable: No source tells any.
        """
        if not self._sources.is_fixed and self._monotonic() - self._read_at_s >= REREAD_S:
            # In a thread of its own: the driver of a notebook runs a loop in this one.
            reading = Thread(target=lambda: asyncio.run(self._sources.read()))
            reading.start()
            reading.join()
            self._follow()
            self._read_at_s = self._monotonic()
        if not self._order:
            causes = "; ".join(self._sources.errors.values())
            self.read_again()
            raise NameServersUnreachable(f"no name server is known: {causes}", retriable=True)
        return tuple(self._order)

    def put_last(self, address: str) -> None:
        """Ask the others first."""
        self._order.remove(address)
        self._order.append(address)

    def read_again(self) -> None:
        """Read sources at the next request: nobody answered."""
        self._read_at_s = float("-inf")

    def _follow(self) -> None:
        known = self._sources.addresses
        fresh = [address for address in known if address not in self._order]
        random.shuffle(fresh)
        self._order = [address for address in self._order if address in known] + fresh


class KeptAnswers:
    """Keeps each answer in a file, in the folder that Spark gives an application.

    Spark ends Python processes that were idle for a minute and starts others, which know no broker
    yet. With these files, they need no name server when all others can continue without one.
    """

    def __init__(self, endpoints: str) -> None:
        """Take the name servers; without a folder from Spark, no file is ever read or written."""
        folder = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
        self._folder = Path(folder, _FOLDER) if folder else None
        self._endpoints = endpoints
        self._written: dict[str, bytes] = {}

    def keep(self, request: Message, answer: Message) -> None:
        """Write an answer, unless this process wrote the same before."""
        name, content = self._name(request), answer.SerializeToString(deterministic=True)
        if self._folder is None or self._written.get(name) == content:
            return
        self._written[name] = content
        try:
            self._folder.mkdir(exist_ok=True)
            # Another process must never read an incomplete file.
            part = self._folder / f"{name}.{uuid4().hex}"
            part.write_bytes(content)
            part.replace(self._folder / name)
        except OSError as error:
            _log.info("answers of name servers are not kept: %s", error)

    def find(self, request: Message, kind: type[_AnswerT]) -> _AnswerT | None:
        """The last answer to a request in any process of this application; or None."""
        if self._folder is None:
            return None
        answer: Any = kind()
        try:
            answer.ParseFromString((self._folder / self._name(request)).read_bytes())
        except (OSError, DecodeError):
            return None
        return answer  # type: ignore[no-any-return]

    def _name(self, request: Message) -> str:
        question = (self._endpoints, type(request).__name__, request.SerializeToString().hex())
        return blake2b("/".join(question).encode(), digest_size=16).hexdigest()
