"""Dead letters through the service: read page by page, searched for long, sent back."""

import asyncio

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError

from ariane.admin.v1 import dead_letter_service_pb2 as letter_pb
from ariane.admin.v1.dead_letter_service_pb2_grpc import DeadLetterServiceStub
from ariane.admin.v1.group_service_pb2 import DeleteGroupRequest
from ariane.admin.v1.group_service_pb2_grpc import GroupServiceStub
from ariane_admin.servicers.message import dead_letters
from ariane_sdk import ClusterClient, DeadLetters, Message, Producer, PushConsumer, Redrive
from ariane_sdk.errors import MessagesFailed

GROUP = "adm-judges"
NOTHING = letter_pb.DeadLetterQuery(key="nobody has it")


@pytest.fixture
def stub(admin):
    return DeadLetterServiceStub(admin)


@pytest.fixture
async def judged(admin, cluster, stub):
    """A group with 25 dead letters, of a topic with queues on both brokers."""

    async def refuse(messages):
        raise MessagesFailed(messages, "no such order", rejected=True)

    async with ClusterClient(cluster.name_servers) as client, Producer(cluster.name_servers) as p:
        await client.create_topic("adm-judged", queue_count=2)
        for n in range(25):
            await p.send(Message("adm-judged", b"body %d" % n, tag="post", keys=[f"k{n}"]))
        consumer = PushConsumer(
            cluster.name_servers,
            group=GROUP,
            subscriptions={"adm-judged": "*"},
            listener=refuse,
            start="earliest",
        )
        async with consumer, asyncio.timeout(60):
            while len(await letters_of(stub)) < 25:  # noqa: ASYNC110 - nobody tells.
                await asyncio.sleep(0.1)
        yield "adm-judged"
        await GroupServiceStub(admin).DeleteGroup(DeleteGroupRequest(consumer_group=GROUP))
        await client.delete_topic("adm-judged")


async def test_dead_letters_are_read_and_sent_back(stub, judged, entries, monkeypatch):
    found = await letters_of(stub)
    assert {letter.message.body for letter in found} == {b"body %d" % n for n in range(25)}
    assert {letter.origin_topic for letter in found} == {judged}
    assert "no such order" in found[0].cause
    one = letter_pb.RedriveDeadLettersRequest(consumer_group=GROUP, places=[found[0].place])
    done = await stub.RedriveDeadLetters(one)
    assert (done.redriven_count, done.duplicate_count) == (1, 0)
    again = await stub.RedriveDeadLetters(one)
    assert (again.redriven_count, again.duplicate_count) == (0, 1)
    assert len(await letters_of(stub)) == 24
    # A call that has taken long enough ends where it is, and the next one goes on there; also
    # where nothing is left to be sent.
    monkeypatch.setattr(dead_letters, "REDRIVE_SECONDS_MAX", 0.0)
    count = 2
    everything = letter_pb.DeadLetterQuery(include_redriven=True)
    for query, sent, before in ((None, 24, 0), (everything, 0, 25), (NOTHING, 0, 0)):
        turns = await redriven(stub, query=query)
        assert len(turns) > 1
        assert sum(turn.redriven_count for turn in turns) == sent
        assert sum(turn.duplicate_count for turn in turns) == before
        count += len(turns)
    assert await letters_of(stub) == []
    turns = await redriven(stub, places=[letter.place for letter in found])
    assert [turn.duplicate_count for turn in turns] == [1] * 25
    assert len(await entries(resource_name=GROUP, page_size=1000)) == count + 25
    with pytest.raises(AioRpcError) as refused:
        await stub.ListDeadLetters(letter_pb.ListDeadLettersRequest(consumer_group="nobody"))
    assert refused.value.code() is StatusCode.NOT_FOUND


async def test_a_search_that_takes_long_tells_how_far_it_has_come(stub, judged, monkeypatch):
    places = [letter.place for letter in await letters_of(stub)]
    monkeypatch.setattr(dead_letters, "SEARCH_SECONDS_MAX", 0.0)
    for query, wanted in ((None, places), (NOTHING, [])):
        pages = await pages_of(stub, query=query)
        assert [letter.place for page in pages for letter in page.dead_letters] == wanted
        parts, last = pages[:-1], pages[-1]
        assert any(page.HasField("searched_to") for page in parts)
        assert not last.HasField("searched_to")
        for page in parts:
            assert page.HasField("searched_to") == (len(page.dead_letters) < 10)
    rare = letter_pb.DeadLetterQuery(key="k17")
    found = [x for page in await pages_of(stub, query=rare) for x in page.dead_letters]
    assert [letter.message.body for letter in found] == [b"body 17"]


async def test_a_redrive_is_not_stuck_for_longer_than_callers_wait(stub, judged, monkeypatch):
    entered = asyncio.Event()

    async def never(*_, on_progress, **__):
        on_progress(Redrive(redriven_count=3))
        entered.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(DeadLetters, "redrive", never)
    monkeypatch.setattr(dead_letters, "REDRIVE_STUCK_S", -dead_letters.REDRIVE_SECONDS_MAX)
    with pytest.raises(AioRpcError) as stuck:
        await stub.RedriveDeadLetters(letter_pb.RedriveDeadLettersRequest(consumer_group=GROUP))
    assert stuck.value.code() is StatusCode.UNAVAILABLE
    assert "does not go on; sent back: 3 dead letters" in stuck.value.details()
    assert entered.is_set()


async def redriven(stub, **which):
    """The answers of calls that each go on where the one before it has come to."""
    request = letter_pb.RedriveDeadLettersRequest(consumer_group=GROUP, **which)
    turns = []
    while not turns or turns[-1].HasField("continue_after"):
        turns.append(await stub.RedriveDeadLetters(request))
        assert len(turns) < 100
        request.continue_after.CopyFrom(turns[-1].continue_after)
    return turns


async def pages_of(stub, **which):
    """The pages of a list, to its end."""
    request = letter_pb.ListDeadLettersRequest(consumer_group=GROUP, page_size=10, **which)
    pages = []
    while not pages or request.page_token:
        pages.append(await stub.ListDeadLetters(request))
        assert len(pages) < 100
        request.page_token = pages[-1].next_page_token
    return pages


async def letters_of(stub):
    """All that were not sent back; none of a group that no broker knows yet."""
    try:
        return [letter for page in await pages_of(stub) for letter in page.dead_letters]
    except AioRpcError as error:
        if error.code() is not StatusCode.NOT_FOUND:
            raise
        return []
