"""Questions to several brokers: brokers that do not answer are left out, and reported.

For questions only. A change that a broker did not make is a failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from ariane_sdk import LiveBroker
from ariane_sdk.errors import CallError, DeadlinePassed, ServiceUnavailable

SILENT: Final = (ServiceUnavailable, DeadlinePassed)
"""Errors of a broker that is frozen, dead, or cut off. Other errors are answers."""

_Answer = TypeVar("_Answer")


class Answers:
    """Brokers that are asked in parallel; a broker that did not answer is not asked again."""

    def __init__(
        self,
        brokers: Sequence[LiveBroker],
        *,
        seconds_max: float | None = None,
        silent: dict[str, CallError] | None = None,
    ) -> None:
        """Ask no broker yet.

        Args:
            brokers: The brokers to ask.
            seconds_max: How long each may take for one question, which may be several calls; a
                slower broker counts as silent. None: no limit.
            silent: Brokers that did not answer earlier questions, to be shared with later ones.
        """
        self.brokers = brokers
        """The brokers to ask."""
        self.silent: dict[str, CallError] = {} if silent is None else silent
        """The errors of brokers that did not answer, by broker name."""
        self._seconds_max = seconds_max

    @property
    def unanswered(self) -> list[str]:
        """Names of the brokers that did not answer."""
        return sorted(self.silent)

    async def ask(
        self, ask: Callable[[LiveBroker], Awaitable[_Answer]], *, nobody_ok: bool = False
    ) -> list[_Answer]:
        """Ask, and return the answers in the order of the brokers, without silent ones.

        Args:
            ask: The question; must change nothing.
            nobody_ok: Whether the caller can go on if no broker answers.

        Raises:
            CallError: A broker answered with an error, or no broker answered.
        """
        asked = [one for one in self.brokers if one.broker_name not in self.silent]
        answers = await asyncio.gather(
            *(self._answer_of(broker, ask) for broker in asked), return_exceptions=True
        )
        given: list[_Answer] = []
        fresh: list[CallError] = []
        for broker, answer in zip(asked, answers, strict=True):
            if isinstance(answer, SILENT):
                answer.outcome_unknown = False
                self.silent[broker.broker_name] = answer
                fresh.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                given.append(answer)
        if self.silent and not given and not nobody_ok:
            raise next(iter(self.silent.values()))
        for error in fresh:
            self.unreachable(error)
        return given

    async def _answer_of(
        self, broker: LiveBroker, ask: Callable[[LiveBroker], Awaitable[_Answer]]
    ) -> _Answer:
        try:
            async with asyncio.timeout(self._seconds_max):
                return await ask(broker)
        except TimeoutError:
            raise DeadlinePassed(
                f"broker {broker.broker_name} at {broker.address} has not answered completely"
                f" within {self._seconds_max:g} s",
                retriable=True,
            ) from None

    def leave_out(self, broker_name: str, error: CallError) -> None:
        """Mark a broker as silent that answered first and failed while it was read.

        Raises:
            CallError: No other broker is left.
        """
        error.outcome_unknown = False
        self.silent[broker_name] = error
        if len(self.silent) == len(self.brokers):
            raise error
        self.unreachable(error)

    def unreachable(self, error: CallError) -> None:
        """Called once for each broker that did not answer."""
