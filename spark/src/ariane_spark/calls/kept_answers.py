"""Answers of name servers, kept for the other processes of an executor, or of the driver.

Spark ends Python processes that were idle for a minute and starts others, which know no broker yet.
Without these files, they would need a name server when all others can continue without one.
"""

from __future__ import annotations

import logging
import os
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from google.protobuf.message import DecodeError, Message

_FOLDER: Final = "ariane-spark"

_AnswerT = TypeVar("_AnswerT", bound=Message)

_log: Final = logging.getLogger(__name__)


class KeptAnswers:
    """Keeps each answer in a file, in the folder that Spark gives an application."""

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
