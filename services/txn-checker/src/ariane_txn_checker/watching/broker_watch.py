"""Watches one broker: runs its survey and its questions side by side."""

from __future__ import annotations

import asyncio

from ariane_servicekit import Clock, get_logger
from ariane_servicekit.database import Database
from ariane_txn_checker.errors import BrokerRefusal, LeaseLost
from ariane_txn_checker.transaction import Lease
from ariane_txn_checker.watching.brokers import Brokers
from ariane_txn_checker.watching.questioner import CheckCounts, CheckRules, Questioner
from ariane_txn_checker.watching.survey import Survey, SurveyTimes

_log = get_logger(__name__)


class BrokerWatch:
    """Watches any broker for as long as its lease lasts."""

    def __init__(
        self,
        brokers: Brokers,
        database: Database,
        times: SurveyTimes,
        rules: CheckRules,
        clock: Clock,
        *,
        survey_interval_s: float,
    ) -> None:
        self._brokers = brokers
        self._database = database
        self._times = times
        self._rules = rules
        self._clock = clock
        self._survey_interval_s = survey_interval_s
        self.counts = CheckCounts()
        """Counts since the start, for all brokers together."""

    async def run(self, lease: Lease) -> None:
        """Watch a broker until cancelled.

        Raises:
            LeaseLost: Another checker has taken the broker over.
        """
        questioner = Questioner(
            self._brokers,
            lease,
            self._database,
            self._clock,
            rules=self._rules,
            counts=self.counts,
        )
        survey = Survey(
            self._brokers,
            lease,
            self._database,
            self._times,
            self._clock,
            show_new=questioner.wake,
        )
        sides = [
            asyncio.create_task(self._survey_ever(survey, lease)),
            asyncio.create_task(questioner.run()),
        ]
        try:
            await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
            for side in sides:
                if side.done():
                    side.result()
        finally:
            for side in sides:
                side.cancel()
            await asyncio.gather(*sides, return_exceptions=True)

    async def _survey_ever(self, survey: Survey, lease: Lease) -> None:
        reached = True
        while True:
            try:
                await survey.turn()
                reached = True
            except LeaseLost:
                raise
            except BrokerRefusal as error:
                if reached:
                    _log.warning("survey_failed", broker=str(lease.broker), error=str(error))
                reached = False
            await self._clock.sleep(self._survey_interval_s)
