"""Which filter a group gets, and how long its worker stays: the worker is played."""

import asyncio

import numpy as np
import pytest

from ariane.broker.v1.pull_service_pb2 import PullRecordsRequest, PullRecordsResponse, QueueRecords
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_filter.catalogue.catalogue import Catalogue
from ariane_filter.catalogue.filter_version import FilterVersion
from ariane_filter.catalogue.folder import Folder
from ariane_filter.jail.limits import JailLimits
from ariane_filter.pulling.filtered_pulls import FilteredPulls
from ariane_filter.running import running_filters
from ariane_filter.running.running_filters import RunningFilters
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import AnswerBudget, ServiceError
from ariane_testkit.virtual_clock import VirtualClock

CODE = b"def matches(message): return True"
IDLE_S = 60.0
SIZES = np.array([10, 20], np.int32)


class PlayedJail:
    """Lets everything through, when it may; a worker runs from the first batch to its end."""

    alive = 0

    def __init__(self, module, limits, **_):
        self.quarantine_cause = ""
        self.may = asyncio.Event()
        self.may.set()
        self._runs = False

    async def check_rest(self):
        pass

    async def judge(self, records, sizes):
        if not self._runs:
            self._runs = True
            PlayedJail.alive += 1
        await self.may.wait()
        return np.ones(len(sizes), np.bool_)

    async def close(self):
        PlayedJail.alive -= self._runs
        self._runs = False


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "filters"


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def version():
    return FilterVersion.of("late", CODE)


@pytest.fixture
def running(folder, clock, version, monkeypatch):
    monkeypatch.setattr(running_filters, "JailedFilter", PlayedJail)
    monkeypatch.setattr(PlayedJail, "alive", 0)
    catalogue = Catalogue(Folder(folder), filters_max=10)
    catalogue.open()
    catalogue.keep(version, CODE)
    return RunningFilters(
        catalogue, clock, launch=None, limits=JailLimits(), workers_max=1, idle_s=IDLE_S
    )


async def test_digits_that_two_versions_share_name_neither_though_one_of_them_runs(
    running, folder, version
):
    twin = version.sha256[:12] + "0" * 52
    (folder / f"late@{twin}.py").write_bytes(b"of somebody who wants to be taken for the other")
    await running.get("late", version.sha256, "whole")
    with pytest.raises(ServiceError) as refused:
        await running.get("late", version.sha256[:12], "short")
    assert refused.value.reason == ErrorReason.ERROR_REASON_FIELD_INVALID


async def test_who_named_a_version_when_it_was_the_only_one_keeps_it(running, folder, version):
    first = await running.get("late", version.sha256[:12], "short")
    (folder / f"late@{version.sha256[:12]}{'0' * 52}.py").write_bytes(b"comes later")
    assert await running.get("late", version.sha256[:12], "short") is first


async def test_a_worker_that_judges_is_not_idle(running, clock, version):
    filter_ = await running.get("late", version.sha256, "group")
    filter_.jailed.may.clear()
    judging = asyncio.create_task(filter_.judge(b"", SIZES))
    await asyncio.sleep(0)
    clock.advance(IDLE_S * 2)
    await running.end_unused()
    assert running.all() == [filter_]
    filter_.jailed.may.set()
    assert (await judging).all()
    await running.end_unused()
    assert running.all() == [filter_]
    clock.advance(IDLE_S * 2)
    await running.end_unused()
    assert running.all() == []
    assert PlayedJail.alive == 0


async def test_each_group_has_a_worker_and_an_unused_one_leaves_its_place(running, clock, version):
    await running.get("late", version.sha256, "first")
    with pytest.raises(ServiceError) as refused:
        await running.get("late", version.sha256, "second")
    assert refused.value.reason == ErrorReason.ERROR_REASON_SERVICE_BUSY
    for number in range(100):
        clock.advance(running_filters.UNUSED_S + 0.1)
        filter_ = await running.get("late", version.sha256, f"group-{number}")
        await filter_.judge(b"", SIZES)
        assert running.groups_of(version) == [f"group-{number}"]
        assert PlayedJail.alive == 1


async def test_what_is_no_group_is_not_kept(running, version):
    pulls = FilteredPulls(None, running, AnswerBudget(1 << 23))
    for group in ("", "two words", "g" * 100_000):
        request = request_of(version, group)
        with pytest.raises(ServiceError) as refused:
            await pulls.records(request, AnswerBudget(1 << 23).lease("peer"), timeout_s=None)
        assert refused.value.reason == ErrorReason.ERROR_REASON_GROUP_NAME_ILLEGAL
        assert len(refused.value.message) < 1000
    assert running.all() == []


class HeldPull:
    """A broker that answers when the test says so."""

    def __init__(self):
        self.asked = asyncio.Event()
        self.answer = asyncio.get_running_loop().create_future()
        self.pulls = self

    def PullRecords(self, request, timeout):  # noqa: N802 - the contract's name, gRPC's
        self.asked.set()
        return self.answer


def request_of(version, group):
    uploaded = subscription_pb.FilterExpression(
        kind=subscription_pb.FILTER_KIND_UPLOADED, text=f"late@{version.sha256}"
    )
    subscription = subscription_pb.Subscription(topic="flights", filter=uploaded)
    return PullRecordsRequest(consumer_group=group, subscriptions=[subscription])


def records():
    encoder = BlockEncoder("flights", size_bytes_max=1 << 20)
    encoder.add(b"one", born_timestamp_ms=1)
    block = encoder.finish()
    queue = QueueRecords(
        topic="flights",
        record_sizes=block.sizes.astype("<i4").tobytes(),
        records=bytes(block.records),
    )
    return PullRecordsResponse(queues=[queue])


async def test_a_pull_held_for_longer_than_a_worker_may_be_idle_leaves_no_worker_behind(
    running, clock, version
):
    link = HeldPull()
    answers = AnswerBudget(1 << 23)
    pulls = FilteredPulls(link, running, answers)
    request = request_of(version, "group")
    pull = asyncio.create_task(pulls.records(request, answers.lease("peer"), timeout_s=None))
    await link.asked.wait()
    clock.advance(IDLE_S * 2)
    await running.end_unused()
    link.answer.set_result(records())
    (queue,) = (await pull).queues
    assert queue.records
    assert PlayedJail.alive == 1
    await running.close()
    assert PlayedJail.alive == 0
