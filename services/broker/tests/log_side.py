"""The door into the log on any store, and with any disk to wait for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.cold_reads import ColdReads
from ariane_broker.log.derived.producer_sequences import ProducerSequences
from ariane_broker.log.promise import AcknowledgedLevel, Condition, Promise
from ariane_broker.log.statistics import BrokerStatistics


class Deaf:
    """Is told, and does nothing."""

    def appended(self, *told):
        pass

    refused = appended


class Grown:
    """Keeps where the log ended after each append."""

    def __init__(self):
        self.ends, self.refusals = [], []

    def appended(self, end):
        self.ends.append(end)

    def refused(self, reason):
        self.refusals.append(reason)


def flushed_promise(when_flushed):
    return Promise((Condition(AcknowledgedLevel.FLUSHED, when_flushed),))


class FlushedAtOnce(Promise):
    """The disk is never busy; needs no loop."""

    def __init__(self, store):
        super().__init__((Condition(AcknowledgedLevel.FLUSHED, self._flush),))
        self._store = store

    def _flush(self, commit_log_offset, on_done):
        assert self._store.flush() >= commit_log_offset
        on_done(None)

    async def kept(self, end):
        self._flush(end, lambda error: None)
        return self.level


class OwnPromise:
    """A broker that promises the same to all."""

    def __init__(self, own):
        self.own = own

    def demanded(self, demand):
        return self.own

    def check(self, demand):
        pass


def broker_log(
    store,
    promise=None,
    *,
    sequences=None,
    arrivals=None,
    keeping=None,
    statistics=None,
    promises=None,
    replicas=None,
):
    if sequences is None:
        sequences = ProducerSequences(now_ms=lambda: 0, expiry_ms=1000, stream_count_max=100)
    return BrokerLog(
        store,
        promises or OwnPromise(Promise() if promise is None else promise),
        sequences,
        Deaf() if arrivals is None else arrivals,
        Deaf() if keeping is None else keeping,
        cold_reads=cold_reads(),
        statistics=BrokerStatistics() if statistics is None else statistics,
        monotonic=lambda: 0.0,
        replicas=replicas,
    )


def cold_reads():
    """Reads of what is not in memory, whose threads start when they are needed."""
    return ColdReads(ThreadPoolExecutor(1), BrokerStatistics())
