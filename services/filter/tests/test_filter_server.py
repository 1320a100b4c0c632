"""A FilterServer beside a real broker: pulls, its catalogue, and filters that misbehave."""

import asyncio
import os
import signal

import pytest
from grpc import aio

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.filter.v1 import filter_pb2
from ariane.filter.v1 import filter_service_pb2 as filter_pb
from ariane_filter.jail import jailed_filter

WANTED = list(range(63, 300, 3))
ALL = b"def matches(message): return True"
UNLUCKY = b"""
def matches(message):
    if message.properties["dep_delay"] == "10":
        raise ValueError("unlucky")
    return True
"""


@pytest.fixture
def topic(make_ariane_topic):
    return make_ariane_topic(queue_count=1)


async def test_a_pull_brings_what_matches_and_moves_over_the_rest(
    filter_server, topic, store, numbers_of
):
    await store(topic)
    late = await filter_server.upload()
    queue = await filter_server.pull(topic, late, group="billing")
    assert numbers_of(queue) == WANTED
    assert (queue.next_queue_offset, queue.max_queue_offset) == (300, 300)
    queue = await filter_server.pull(topic, late, 200, group="billing", record_count_max=50)
    assert numbers_of(queue) == [number for number in WANTED if 200 <= number < 250]
    assert queue.next_queue_offset == 250
    state = await filter_server.state()
    assert state.broker_name == "broker-a"
    assert (state.examined_record_count, state.delivered_record_count) == (350, len(WANTED) + 17)
    (worker,) = state.workers
    assert worker.filter_version == late
    assert worker.process_id
    assert worker.consumer_groups == ["billing"]


async def test_a_held_pull_is_answered_when_something_comes(
    filter_server, topic, store, numbers_of
):
    late = await filter_server.upload()
    call = filter_server.pull_call(topic, late, hold_s=30, group="held")
    await filter_server.until_asked("held")
    await store(topic, 70)
    (queue,) = (await call).queues
    assert numbers_of(queue) == [63, 66, 69]


async def test_pulls_on_a_stream_go_on_one_after_another(filter_server, topic, store, numbers_of):
    """The next request ends the hold of the one before, as at the broker."""
    late = await filter_server.upload()

    def request(queue_offset, hold_s=30):
        pull = pull_pb.PullRecordsRequest(
            consumer_group="stream",
            positions=[pull_pb.PullPosition(topic=topic, queue_offset=queue_offset)],
            subscriptions=[filter_server.subscription(topic, late)],
        )
        pull.hold_duration.FromMilliseconds(hold_s * 1000)
        return pull_pb.StreamPullsRequest(pull=pull, follow=True)

    call = filter_server.pulls.StreamPulls()
    await call.write(request(0))
    await call.write(request(0))
    first = await call.read()
    assert not first.more_follow
    assert [len(queue.records) for queue in first.pulled.queues] == [0]
    await store(topic, 100)
    (queue,) = (await call.read()).pulled.queues
    assert numbers_of(queue) == list(range(63, 100, 3))
    await call.write(request(queue.next_queue_offset, hold_s=0))
    (queue,) = (await call.read()).pulled.queues
    assert (numbers_of(queue), queue.next_queue_offset) == ([], 100)
    await call.done_writing()
    assert await call.read() is aio.EOF


async def test_plain_messages_are_filtered_too(filter_server, topic, store):
    await store(topic)
    late = await filter_server.upload()
    request = pull_pb.PullMessagesRequest(
        consumer_group="plain",
        positions=[pull_pb.PullPosition(topic=topic)],
        subscriptions=[filter_server.subscription(topic, late)],
    )
    (queue,) = (await filter_server.pulls.PullMessages(request)).queues
    assert [int(message.body) for message in queue.messages] == WANTED
    assert [message.position.queue_offset for message in queue.messages] == WANTED
    assert (queue.next_queue_offset, queue.max_queue_offset) == (300, 300)
    request.message_count_max = 64
    (queue,) = (await filter_server.pulls.PullMessages(request)).queues
    assert ([int(message.body) for message in queue.messages], queue.next_queue_offset) == (
        [63],
        64,
    )


async def test_what_the_broker_refuses_is_refused_in_its_words(
    filter_server, topic, refused, failure_of
):
    late = await filter_server.upload()
    (queue,) = (await filter_server.pull_call(topic, late, 7)).queues
    assert failure_of(queue.error).reason == "QUEUE_OFFSET_OUT_OF_RANGE"
    failure = await refused(filter_server.pull_call(topic, late, -1))
    assert (failure.reason, failure.metadata["field"]) == (
        "FIELD_INVALID",
        "positions[0].queue_offset",
    )
    failure = await refused(
        filter_server.pulls.ListQueueBounds(pull_pb.ListQueueBoundsRequest(topic=topic))
    )
    assert failure.reason == "FEATURE_NOT_AVAILABLE"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("late", "FILTER_EXPRESSION_INVALID"),
        ("../late@0123456789ab", "FILTER_EXPRESSION_INVALID"),
        ("late@0123456789ab", "FILTER_NOT_FOUND"),
    ],
)
async def test_filters_that_are_none_are_refused(filter_server, topic, refused, name, reason):
    assert (await refused(filter_server.pull_call(topic, name))).reason == reason


async def test_three_strikes_and_a_filter_is_out_until_it_is_released(
    start_filter_server, topic, store, numbers_of, refused, failure_of, monkeypatch
):
    """Its group gets neither unfiltered messages nor silence, at any server of the broker."""
    monkeypatch.setattr(jailed_filter, "PAUSE_S", 0.01)
    one, other = await start_filter_server(), await start_filter_server()
    await store(topic, 20)
    version = await one.upload(UNLUCKY, "unlucky")
    neighbour = await one.upload()
    for _ in range(3):
        queue = await one.pull(topic, version)
        failure = failure_of(queue.error)
        assert failure.reason == "FILTER_FAILED"
        assert "ValueError in line 4: unlucky" in failure.metadata["cause"]
        assert (queue.next_queue_offset, queue.records) == (0, b"")
    for server in (one, other):
        failure = await refused(server.pull_call(topic, version))
        assert failure.reason == "FILTER_QUARANTINED"
        assert "unlucky" in failure.metadata["cause"]
        assert numbers_of(await server.pull(topic, neighbour)) == []
    await other.release(version)
    for server in (one, other):
        queue = await server.pull(topic, version, 11)
        assert numbers_of(queue) == list(range(11, 20))


async def test_operators_stop_and_release_a_filter(
    filter_server, topic, store, numbers_of, refused
):
    version = await filter_server.upload()
    call = filter_server.pull_call(topic, version, hold_s=30, group="held")
    await filter_server.until_asked("held")
    await filter_server.quarantine(version)
    await store(topic, 70)
    assert (await refused(call)).reason == "FILTER_QUARANTINED"
    failure = await refused(filter_server.pull_call(topic, version))
    assert failure.metadata == {"filter": version, "cause": "too wild"}
    await filter_server.release(version)
    assert numbers_of(await filter_server.pull(topic, version)) == [63, 66, 69]


HOSTILE = {
    "an endless loop": b"def matches(message):\n while True: pass",
    "an exit": b"import os\ndef matches(message): os._exit(0)",
    "a memory bomb": b"def matches(message): return bytes(1 << 33)",
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_hostile_filters_leave_their_neighbours_alone(
    start_filter_server, topic, store, numbers_of, failure_of, kind
):
    """The neighbour is served while the hostile one runs, by the same server."""
    server = await start_filter_server(batch_cpu_s=0.3)
    await store(topic)
    hostile, good = await server.upload(HOSTILE[kind], "hostile"), await server.upload()
    await server.pull(topic, good)
    call = asyncio.ensure_future(server.pull(topic, hostile))
    for _ in range(5):
        assert numbers_of(await server.pull(topic, good)) == WANTED
    assert failure_of((await call).error).reason == "FILTER_FAILED"
    assert numbers_of(await server.pull(topic, good)) == WANTED


async def test_a_killed_worker_is_started_again_and_nobody_notices(
    filter_server, topic, store, numbers_of
):
    await store(topic)
    late = await filter_server.upload()
    pids = set()
    for _ in range(3):
        assert numbers_of(await filter_server.pull(topic, late, group="billing")) == WANTED
        (worker,) = (await filter_server.state()).workers
        pids.add(worker.process_id)
        os.kill(worker.process_id, signal.SIGKILL)
    assert len(pids) == 3
    assert numbers_of(await filter_server.pull(topic, late, group="billing")) == WANTED
    (worker,) = (await filter_server.state()).workers
    assert worker.strike_count == 0


BODY = b"def matches(message): return int(message.body) % 2 == 0"
BODY_OR_NOT = b"""
def matches(message):
    try:
        return int(message.body) % 2 == 0
    except Exception:
        return True
"""
LIAR = b"""
import sys
def matches(message):
    raise sys.modules["ariane_record.errors"].BodyDamaged("it is damaged, really")
"""


async def test_a_damaged_body_is_nobodys_strike(
    filter_server, topic, store, numbers_of, failure_of
):
    """What is before it is delivered; then its queue says so, and gives the message along."""
    await store(topic, 10, damaged=[4])
    version = await filter_server.upload(BODY, "even")
    queue = await filter_server.pull(topic, version, group="billing")
    assert (numbers_of(queue), queue.next_queue_offset) == ([0, 2], 4)
    for _ in range(4):
        queue = await filter_server.pull(topic, version, 4, group="billing")
        failure = failure_of(queue.error)
        assert failure.reason == "BODY_DAMAGED"
        assert failure.metadata["queue_offset"] == "4"
        assert queue.next_queue_offset == 4
        assert len(queue.record_sizes) == 4
    queue = await filter_server.pull(topic, version, 5, group="billing")
    assert numbers_of(queue) == [6, 8]
    (worker,) = (await filter_server.state()).workers
    assert worker.strike_count == 0


async def test_a_filter_that_minds_damage_itself_or_never_looks_goes_on(
    filter_server, topic, store
):
    await store(topic, 10, damaged=[4])
    for code in (BODY_OR_NOT, ALL):
        queue = await filter_server.pull(topic, await filter_server.upload(code, "own"))
        assert not queue.HasField("error")
        assert queue.next_queue_offset == 10


async def test_a_filter_that_only_says_that_a_body_is_damaged_gets_a_strike(
    filter_server, topic, store, failure_of
):
    await store(topic, 10, compressed=True)
    version = await filter_server.upload(LIAR, "liar")
    queue = await filter_server.pull(topic, version)
    failure = failure_of(queue.error)
    assert failure.reason == "FILTER_FAILED"
    assert "that can be read" in failure.metadata["cause"]
    (worker,) = (await filter_server.state()).workers
    assert worker.strike_count == 1


async def test_uploads_are_tried_before_they_are_kept(filter_server, refused):
    for name, code, reason, said in (
        ("late", b"def matches(", "FILTER_MODULE_INVALID", "SyntaxError"),
        ("late", b"x = 1", "FILTER_MODULE_INVALID", "no function matches"),
        ("late", b"\0asm\1\0\0\0", "FILTER_MODULE_INVALID", "does not export memory"),
        ("late", b"", "FIELD_INVALID", "module"),
        ("late", b"#" * (1 << 20) + b"#", "FIELD_INVALID", "module"),
        ("../late", ALL, "FIELD_INVALID", "filter"),
    ):
        call = filter_server.filters.UploadFilter(
            filter_pb.UploadFilterRequest(filter=name, module=code)
        )
        failure = await refused(call)
        assert failure.reason == reason
        assert said in str(failure.metadata)
    listed = await filter_server.filters.ListFilters(filter_pb.ListFiltersRequest())
    assert list(listed.filters) == []


@pytest.mark.parametrize(("uploads", "python", "wasm"), [("off", 0, 0), ("wasm", 0, 1)])
async def test_uploads_are_refused_unless_they_are_wanted(
    start_filter_server, refused, uploads, python, wasm
):
    server = await start_filter_server(uploads=uploads)
    for code, taken in ((ALL, python), (b"\0asm", wasm)):
        failure = await refused(
            server.filters.UploadFilter(filter_pb.UploadFilterRequest(filter="a", module=code))
        )
        assert failure.reason == ("FILTER_MODULE_INVALID" if taken else "ACCESS_DENIED")
        failure = await refused(
            server.filters.TryFilter(
                filter_pb.TryFilterRequest(
                    module=code,
                    ranges=[filter_pb.MessageRange(topic="t", end_queue_offset=1)],
                )
            )
        )
        assert failure.reason == ("FILTER_MODULE_INVALID" if taken else "ACCESS_DENIED")


async def test_the_catalogue_on_the_wire(start_filter_server, topic, store, refused):
    one, other = await start_filter_server(), await start_filter_server()
    version = await one.upload()
    name, _, digits = version.partition("@")
    again = await other.filters.UploadFilter(
        filter_pb.UploadFilterRequest(filter="late", module=(await module_of(one, name, digits)))
    )
    assert again.duplicate
    (listed,) = (await other.filters.ListFilters(filter_pb.ListFiltersRequest())).filters
    assert (listed.language, listed.state) == (
        filter_pb2.FILTER_LANGUAGE_PYTHON,
        filter_pb2.FILTER_STATE_ACTIVE,
    )
    await one.pull(topic, version, group="billing")
    delete = filter_pb.DeleteFilterRequest(filter=name, version=digits)
    failure = await refused(one.filters.DeleteFilter(delete))
    assert (failure.reason, failure.metadata["consumer_group"]) == ("FILTER_IN_USE", "billing")
    failure = await refused(other.filters.DeleteFilter(delete))
    assert (failure.reason, failure.metadata["consumer_group"]) == ("FILTER_IN_USE", "billing")


async def test_what_nobody_uses_is_deleted_for_all_servers(start_filter_server, topic, refused):
    one, other = await start_filter_server(worker_idle_s=0.1), await start_filter_server()
    version = await one.upload()
    name, _, digits = version.partition("@")
    await one.pull(topic, version, group="billing")
    delete = filter_pb.DeleteFilterRequest(filter=name, version=digits)
    async with asyncio.timeout(60):
        while (await one.state()).workers:  # noqa: ASYNC110 - of another task.
            await asyncio.sleep(0.05)
    await other.filters.DeleteFilter(delete)
    assert (await refused(one.pull_call(topic, version))).reason == "FILTER_NOT_FOUND"
    assert (await refused(other.filters.DeleteFilter(delete))).reason == "FILTER_NOT_FOUND"
    assert await one.upload() == version
    assert (await one.pull(topic, version)).next_queue_offset == 0


async def module_of(server, name, digits):
    request = filter_pb.GetFilterRequest(filter=name, version=digits, include_module=True)
    return (await server.filters.GetFilter(request)).module


async def test_a_try_tells_what_would_match_and_strikes_nobody(
    filter_server, topic, store, refused
):
    await store(topic, 80)
    ranges = [
        filter_pb.MessageRange(topic=topic, begin_queue_offset=60, end_queue_offset=70),
        filter_pb.MessageRange(topic=topic, begin_queue_offset=75, end_queue_offset=80),
    ]
    version = await filter_server.upload()
    for subject in ({"filter": version}, {"module": ALL}):
        tried = await filter_server.filters.TryFilter(
            filter_pb.TryFilterRequest(ranges=ranges, **subject)
        )
        found = {each.queue_offset: each.matches for each in tried.verdicts}
        assert list(found) == [*range(60, 70), *range(75, 80)]
        wanted = {63, 66, 69, 75, 78} if "filter" in subject else set(found)
        assert {offset for offset, matches in found.items() if matches} == wanted
    for _ in range(4):
        request = filter_pb.TryFilterRequest(module=b"def matches(m): return 1 / 0", ranges=ranges)
        failure = await refused(filter_server.filters.TryFilter(request))
        assert failure.reason == "FILTER_FAILED"
        assert "ZeroDivisionError" in failure.metadata["cause"]
    request = filter_pb.TryFilterRequest(
        filter=version, ranges=[filter_pb.MessageRange(topic=topic, end_queue_offset=1001)]
    )
    assert (await refused(filter_server.filters.TryFilter(request))).reason == "FIELD_INVALID"


KEEPS = b"""
seen = []
def matches(message):
    seen.append(bytes(message.body))
    return len(seen) > 1
"""


async def test_what_a_filter_keeps_of_one_group_is_in_no_workers_of_others(
    start_filter_server, topic, store, numbers_of
):
    server = await start_filter_server()
    await store(topic, 3)
    version = await server.upload(KEEPS, "keeps")
    for group in ("of-one-owner", "of-another"):
        queue = await server.pull(topic, version, group=group)
        assert numbers_of(queue) == [1, 2]  # A worker of both groups would let 0 pass as well.
    workers = (await server.state()).workers
    groups = [list(worker.consumer_groups) for worker in workers]
    assert groups == [["of-another"], ["of-one-owner"]]
    assert len({worker.process_id for worker in workers}) == 2


async def test_workers_have_an_end(start_filter_server, topic, refused):
    server = await start_filter_server(workers_max=1)
    first, second = await server.upload(), await server.upload(ALL, "all")
    await server.pull(topic, first, group="billing")
    assert (await refused(server.pull_call(topic, second))).reason == "SERVICE_BUSY"
    await server.pull(topic, first, group="billing")


async def test_a_server_that_stops_sends_held_pulls_elsewhere(start_filter_server, topic, refused):
    server = await start_filter_server()
    version = await server.upload()
    call = server.pull_call(topic, version, hold_s=30, group="held")
    await server.until_asked("held")
    stopping = asyncio.ensure_future(server.stop())
    assert (await refused(call)).reason == "SERVICE_DRAINING"
    await stopping
