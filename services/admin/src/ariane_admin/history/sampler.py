"""Samples the figures of every broker at regular times, and stores them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ariane.admin.v1 import history_service_pb2 as history_pb
from ariane.broker.v1.broker_service_pb2 import GetBrokerStateResponse
from ariane_admin.asking.answers import Answers
from ariane_admin.asking.broker_readings import broker_state
from ariane_admin.asking.cluster_doors import ClusterDoors
from ariane_admin.history.store import Sample, SampleStore
from ariane_admin.servicers.rates import RateMemory, Rates
from ariane_record.names import is_system_group
from ariane_sdk import LiveBroker, QueueLag
from ariane_sdk.errors import ArianeError
from ariane_servicekit import Clock, get_logger
from ariane_servicekit.database import Database

THIN_OUT_S: Final = 300.0
"""Seconds between removals of old samples."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SamplingRules:
    """The rules of sampling."""

    interval_s: float
    """Seconds between two samples."""
    keep_s: float
    """Seconds that samples are kept."""
    groups_max: int
    """The most consumer groups of one sample."""


class Sampler:
    """Takes samples; each makes some calls to each broker, all at the same time."""

    def __init__(
        self,
        doors: ClusterDoors,
        *,
        store: SampleStore,
        database: Database,
        rates: RateMemory,
        rules: SamplingRules,
        clock: Clock,
    ) -> None:
        self._doors = doors
        self._store = store
        self._database = database
        self._rates = rates
        self._rules = rules
        self._clock = clock
        self._behind: set[str] = set()
        self._thinned_s = -THIN_OUT_S

    async def look(self) -> None:
        """Take one sample of everything; none if no name server answers."""
        try:
            answers = Answers(await self._doors.primaries())
            states = await answers.ask(self._state, nobody_ok=True)
            lags = await answers.ask(self._lags, nobody_ok=True)
        except ArianeError as error:
            _log.info("sample_left_out", error=str(error))
            self._rates.forget_all_but(set())
            return
        now_ms, at_s = self._clock.now_ms(), self._clock.monotonic()
        samples: list[Sample] = []
        for broker, state in states:
            rates = self._rates.take(broker.broker_name, state, at_s)
            samples += _of_broker(broker.broker_name, state, rates)
        self._rates.forget_all_but({broker.broker_name for broker, _ in states})
        samples += self._of_groups([lag for found in lags for lag in found], now_ms)
        # Whole multiples of the interval: several admins sample the same instants.
        interval_ms = round(self._rules.interval_s * 1000)
        time_ms = now_ms // interval_ms * interval_ms
        await self._database.call(self._store.add, time_ms, samples)
        if at_s - self._thinned_s >= THIN_OUT_S:
            self._thinned_s = at_s
            keep_ms = round(self._rules.keep_s * 1000)
            await self._database.call(self._store.thin_out, now_ms, keep_ms=keep_ms)

    async def _state(self, broker: LiveBroker) -> tuple[LiveBroker, GetBrokerStateResponse]:
        return broker, await broker_state(self._doors, broker)

    async def _lags(self, broker: LiveBroker) -> list[QueueLag]:
        return await self._doors.client.consumer_lag(broker_names=[broker.broker_name])

    def _of_groups(self, lags: Sequence[QueueLag], now_ms: int) -> list[Sample]:
        """Backlogs of groups, and a last zero for groups that no longer have one."""
        counts: dict[str, int] = defaultdict(int)
        oldest: dict[str, datetime] = {}
        for lag in lags:
            if lag.message_count and not is_system_group(lag.group):
                counts[lag.group] += lag.message_count
                if lag.oldest_store_time is not None:
                    first = oldest.get(lag.group, lag.oldest_store_time)
                    oldest[lag.group] = min(first, lag.oldest_store_time)
        longest = sorted(counts, key=lambda group: (-counts[group], group))
        kept = set(longest[: self._rules.groups_max])
        ended = self._behind - kept
        self._behind = kept
        samples = []
        for group in sorted(kept | ended):
            count = counts[group] if group in kept else 0
            samples.append(Sample(history_pb.SERIES_KIND_GROUP_LAG, group, count))
            since = oldest.get(group) if group in kept else None
            delay_s = 0.0 if since is None else max(0.0, now_ms / 1000 - since.timestamp())
            samples.append(Sample(history_pb.SERIES_KIND_GROUP_DELAY, group, delay_s))
        return samples


def _of_broker(name: str, state: GetBrokerStateResponse, rates: Rates | None) -> list[Sample]:
    samples = [Sample(history_pb.SERIES_KIND_DISK_RATIO, name, state.store.disk_used_ratio)]
    if rates is not None:
        samples += [
            Sample(history_pb.SERIES_KIND_STORED_RATE, name, rates.stored_messages),
            Sample(history_pb.SERIES_KIND_PULLED_RATE, name, rates.pulled_messages),
            Sample(history_pb.SERIES_KIND_STORED_BYTES_RATE, name, rates.stored_bytes),
            Sample(history_pb.SERIES_KIND_PULLED_BYTES_RATE, name, rates.pulled_bytes),
        ]
    return samples
