"""Which FilterServer a consumer pulls from, and when it gives up."""

import pytest

from ariane_sdk import errors
from ariane_sdk.consumer.pulling.pull_source import FilterServerSource
from ariane_sdk.errors import CallError, FilterRefused, FilterServersUnreachable, ServiceUnavailable

AWAY = ServiceUnavailable("connection refused", retriable=True)


class _Clock:
    def __init__(self):
        self.now_s = 0.0

    def monotonic_s(self):
        return self.now_s


class Side:
    """A source with what it is given."""

    def __init__(self, addresses=("a:1", "b:1", "c:1"), first=0):
        self.addresses = list(addresses)
        self.clock = _Clock()
        self.fatal = []
        self.broker_away = False
        self.has_code = False
        self.upload_fails = None
        self.uploads = []
        self.source = FilterServerSource(
            "broker-a",
            lambda: tuple(self.addresses),
            first=first,
            wait_s=30,
            clock=self.clock,
            broker_answers=self._ask_broker,
            upload=self._upload,
            on_fatal=self.fatal.append,
        )

    async def _upload(self, address):
        if self.upload_fails is not None:
            raise self.upload_fails
        self.uploads.append(address)
        return self.has_code

    async def _ask_broker(self):
        if self.broker_away:
            raise CallError("away")


def refused(reason):
    return FilterRefused(reason, reason=reason)


async def test_members_begin_at_different_servers_and_stay():
    assert {Side(first=first).source.address() for first in range(3)} == {"a:1", "b:1", "c:1"}
    side = Side(first=4)
    assert side.source.address() == "b:1"
    side.addresses.insert(0, "0:1")
    assert side.source.address() == "b:1"


async def test_the_next_one_is_asked_at_once_and_all_again_after_a_pause():
    side = Side()
    asked, at_once = [], []
    for _ in range(4):
        asked.append(side.source.address())
        at_once.append(await side.source.failed(AWAY))
    assert set(asked[:3]) == {"a:1", "b:1", "c:1"}
    assert at_once == [True, True, False, True]
    assert asked[3] != asked[2]
    side.source.answered()
    assert side.fatal == []


async def test_one_that_leaves_the_route_is_left():
    side = Side()
    assert side.source.address() == "a:1"
    side.addresses.remove("a:1")
    assert side.source.address() == "b:1"


async def test_no_server_left_ends_the_consumer_after_a_while():
    side = Side(addresses=())
    for now_s in (0, 10, 29, 31):
        side.clock.now_s = now_s
        with pytest.raises(FilterServersUnreachable) as absent:
            side.source.address()
        assert not await side.source.failed(absent.value)
        assert bool(side.fatal) == (now_s > 30)
    (error,) = side.fatal
    assert isinstance(error, FilterServersUnreachable)
    assert error.reason == "FILTER_SERVERS_UNREACHABLE"


async def test_servers_that_answer_nothing_are_as_good_as_none():
    side = Side(addresses=("a:1", "b:1"))
    for now_s in range(0, 40, 5):
        side.clock.now_s = now_s
        side.source.address()
        await side.source.failed(AWAY)
    assert type(side.fatal[0]) is FilterServersUnreachable


async def test_an_answer_in_between_begins_the_wait_anew():
    side = Side(addresses=("a:1",))
    for now_s in range(0, 100, 20):
        side.clock.now_s = now_s
        side.source.address()
        await side.source.failed(AWAY)
        side.source.answered()
    assert side.fatal == []


async def test_consumers_wait_for_a_broker_that_is_away_as_without_a_filter():
    side = Side(addresses=("a:1",))
    side.broker_away = True
    for now_s in range(0, 200, 20):
        side.clock.now_s = now_s
        side.source.address()
        await side.source.failed(AWAY)
    assert side.fatal == []
    # A FilterServer that says so itself is not away.
    busy = ServiceUnavailable("its broker is away", reason="SERVICE_BUSY", retriable=True)
    side.broker_away = False
    for now_s in range(200, 400, 20):
        side.clock.now_s = now_s
        side.source.address()
        await side.source.failed(busy)
    assert side.fatal == []


async def test_a_filter_that_no_server_has_is_an_error():
    side = Side()
    for address in ("a:1", "b:1", "c:1"):
        assert side.fatal == []
        assert address in side.addresses
        side.source.address()
        await side.source.failed(refused("FILTER_NOT_FOUND"))
    assert side.fatal[0].reason == "FILTER_NOT_FOUND"


async def test_one_server_that_lacks_a_filter_is_passed_over():
    side = Side(addresses=("a:1", "b:1"))
    side.source.address()
    assert await side.source.failed(refused("FILTER_NOT_FOUND"))
    assert side.source.address() == "b:1"
    side.source.answered()
    assert side.fatal == []


async def test_quarantine_ends_the_consumer_at_once():
    side = Side()
    side.source.address()
    await side.source.failed(refused("FILTER_QUARANTINED"))
    assert [error.reason for error in side.fatal] == ["FILTER_QUARANTINED"]
    assert isinstance(side.fatal[0], errors.FilterRefused)


async def test_one_that_lacks_a_filter_whose_code_is_known_gets_it_once():
    side = Side(addresses=["a:1"])
    side.has_code = True
    assert side.source.address() == "a:1"
    assert await side.source.failed(refused("FILTER_NOT_FOUND"))
    assert (side.uploads, side.source.address()) == (["a:1"], "a:1")
    # One that forgets what it was given is not given it again and again.
    assert not await side.source.failed(refused("FILTER_NOT_FOUND"))
    assert [each.reason for each in side.fatal] == ["FILTER_NOT_FOUND"]


async def test_one_that_does_not_take_the_code_ends_the_consumer_with_its_reason():
    side = Side(addresses=["a:1"])
    side.upload_fails = CallError("not from there", reason="ACCESS_DENIED")
    side.source.address()
    assert not await side.source.failed(refused("FILTER_NOT_FOUND"))
    assert [each.reason for each in side.fatal] == ["ACCESS_DENIED"]


async def test_one_that_ends_or_is_busy_while_it_takes_the_code_gets_it_again():
    side = Side(addresses=["a:1"])
    side.has_code = True
    for cause in (
        errors.ServiceUnavailable("away", retriable=True),
        CallError("its disk is slow", reason="SERVICE_BUSY", retriable=True),
    ):
        side.upload_fails = cause
        assert side.source.address() == "a:1"
        assert not await side.source.failed(refused("FILTER_NOT_FOUND"))
        assert side.fatal == []
    side.upload_fails = None
    assert await side.source.failed(refused("FILTER_NOT_FOUND"))
    assert side.uploads == ["a:1"]
