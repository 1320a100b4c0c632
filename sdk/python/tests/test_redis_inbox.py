"""The inbox in Redis, on a real server: the machine's, or what ``make bench-peers`` unpacked."""

import asyncio
import shutil
import socket
import subprocess
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisUnreachable
from redis.exceptions import ResponseError

from ariane_sdk.errors import ConsumptionHeld, IllegalArgument
from ariane_sdk.redis import RedisInbox
from ariane_testkit.free_ports import free_port

UNPACKED = Path(__file__).parents[3] / ".cache" / "bench" / "redis"
WEEK = timedelta(days=7)


@dataclass(frozen=True)
class Delivered:
    unique_id: str


def messages(*names):
    return [Delivered(name) for name in names]


def names(fresh):
    return [message.unique_id for message in fresh]


class Broken(Exception):
    """The effect failed."""


async def forgotten(redis):
    """Wait until Redis has dropped what it has of inboxes."""
    for key in await redis.keys("ariane:*"):
        await asyncio.sleep((await redis.pttl(key) + 5) / 1000)
    assert await redis.keys("ariane:*") == []


async def fail(inbox, delivered, meanwhile=None):
    async with inbox.claim(delivered) as fresh:
        if meanwhile is not None:
            await meanwhile()
        raise Broken(names(fresh))


def pay(pipeline, fresh):
    pipeline.incrby("paid", len(fresh))


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    program = shutil.which("redis-server")
    libraries = {}
    if program is None:
        program = str(UNPACKED / "usr/bin/redis-server")
        folders = map(str, UNPACKED.glob("usr/lib/*-linux-gnu"))
        libraries = {"LD_LIBRARY_PATH": ":".join(folders)}
        if not Path(program).exists():
            pytest.skip("no Redis here: install Debian's package redis-server")
    port, folder = free_port(), tmp_path_factory.mktemp("redis")
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, cwd=folder, env=libraries, stdout=log) as server,
    ):
        try:
            _wait_until_it_listens(server, port)
            yield port
        finally:
            server.kill()


def _wait_until_it_listens(server, port):
    while server.poll() is None:
        with socket.socket() as link:
            if link.connect_ex(("127.0.0.1", port)) == 0:
                return
    pytest.fail("redis-server ended")


@pytest.fixture(params=[False, True], ids=["bytes", "text"])
async def redis(request, port):
    async with Redis(port=port, decode_responses=request.param) as client:
        await client.flushall()
        yield client


async def test_an_effect_in_redis_is_made_once(redis):
    inbox = RedisInbox(redis, "billing", keep=WEEK)
    assert names(await inbox.take(messages("b", "a", "b", "c"), pay)) == ["b", "a", "c"]
    assert names(await inbox.take(messages("a", "d", "c"), pay)) == ["d"]
    assert await inbox.take(messages("a"), pay) == await inbox.take([], pay) == []
    assert names(await RedisInbox(redis, "b", keep=WEEK).take(messages("a"), pay)) == ["a"]
    assert int(await redis.get("paid")) == 5
    assert await inbox.replay(["a", "b", "never"]) == 2
    assert names(await inbox.take(messages("a", "c"), pay)) == ["a"]


async def test_of_consumers_at_once_one_makes_the_effect(redis):
    inbox = RedisInbox(redis, "billing", keep=WEEK)
    every = messages(*map(str, range(20)))
    # Windows that overlap: each has some that others take, too.
    taken = await asyncio.gather(*(inbox.take(every[at : at + 5], pay) for at in range(16)))
    assert sorted(chain.from_iterable(map(names, taken))) == sorted(names(every))
    assert int(await redis.get("paid")) == 20


async def test_a_claim_keeps_others_away_until_it_is_done_or_given_back(redis):
    inbox = RedisInbox(redis, "billing", keep=WEEK)
    async with inbox.claim(messages("b", "a", "b")) as fresh:
        assert names(fresh) == ["b", "a"]
        with pytest.raises(ConsumptionHeld, match="another consumer"):
            async with inbox.claim(messages("c", "a")):
                pytest.fail("claimed twice")
        with pytest.raises(ConsumptionHeld):
            await inbox.take(messages("c", "a"), pay)
    # What was refused beside a claimed one is free; what is done is not fresh.
    with pytest.raises(Broken, match=r"\['c', 'd'\]"):
        await fail(inbox, messages("a", "c", "d"))
    async with inbox.claim(messages("c", "b")) as fresh:
        assert names(fresh) == ["c"]
    async with inbox.claim(messages("a", "b", "c")) as fresh:
        assert fresh == []
    assert await redis.get("paid") is None


async def test_of_consumers_with_the_same_messages_one_claims_them_all(redis):
    inbox = RedisInbox(redis, "billing", keep=WEEK)
    outcomes = []

    async def consume(order):
        try:
            async with inbox.claim(messages(*order)) as fresh:
                outcomes.append(len(fresh))
                await asyncio.wait_for(all_have_tried.wait(), 30)
        except ConsumptionHeld:
            outcomes.append("held")
        if len(outcomes) == 8:
            all_have_tried.set()

    all_have_tried = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for turn in range(8):
            group.create_task(consume("abcdef"[:: 1 if turn % 2 else -1]))
    assert sorted(outcomes, key=str) == [6, *["held"] * 7]


async def test_claims_lapse_and_keys_are_forgotten_after_their_time(redis):
    hasty = RedisInbox(redis, "billing", keep=WEEK, claim_for=timedelta(milliseconds=50))
    inbox = RedisInbox(redis, "billing", keep=timedelta(milliseconds=1))

    async with hasty.claim(messages("a")):
        await forgotten(redis)
        assert names(await inbox.take(messages("a"), pay)) == ["a"]
    assert await inbox.take(messages("a"), pay) == []
    (key,) = await redis.keys("ariane:*")
    assert 600_000_000 < await redis.pttl(key) <= WEEK / timedelta(milliseconds=1)
    assert names(await inbox.take(messages("b"), pay)) == ["b"]
    await redis.delete(key)
    await forgotten(redis)
    assert names(await inbox.take(messages("b"), pay)) == ["b"]


async def test_a_claim_that_is_anothers_by_now_is_not_given_back(redis):
    hasty = RedisInbox(redis, "billing", keep=WEEK, claim_for=timedelta(milliseconds=50))
    inbox = RedisInbox(redis, "billing", keep=WEEK)

    async def lapse():
        await forgotten(redis)
        await others.enter_async_context(inbox.claim(messages("a")))

    async with AsyncExitStack() as others:
        with pytest.raises(Broken):
            await fail(hasty, messages("a"), lapse)
        with pytest.raises(ConsumptionHeld):
            await inbox.take(messages("a"), pay)
    assert await inbox.take(messages("a"), pay) == []


async def test_a_refused_command_raises_and_the_rest_counts(redis):
    await redis.set("paid", "no number")
    inbox = RedisInbox(redis, "billing", keep=WEEK)
    with pytest.raises(ResponseError, match="INCRBY paid"):
        await inbox.take(messages("a"), pay)
    assert await inbox.take(messages("a"), pay) == []


@asynccontextmanager
async def cutting(port, cuts):
    """Through a proxy that cuts the link when it has the answer to an EXEC, while cuts are left."""
    links = set()

    async def relay(reader, writer):
        links.add(asyncio.current_task())
        answers, requests = await asyncio.open_connection("127.0.0.1", port)
        while asked := await reader.read(65536):
            requests.write(asked)
            answer = await answers.read(65536)
            if b"EXEC" in asked and cuts:
                cuts.pop()
                break
            writer.write(answer)
        for link in (writer, requests):
            link.close()
            await link.wait_closed()

    async with (
        await asyncio.start_server(relay, "127.0.0.1", 0) as server,
        Redis(port=server.sockets[0].getsockname()[1]) as client,
    ):
        yield client
    await asyncio.gather(*links)


async def test_what_was_done_before_an_answer_was_lost_is_not_done_again(redis, port):
    cuts = []
    async with cutting(port, cuts) as client:
        inbox = RedisInbox(client, "billing", keep=WEEK)
        cuts.append("the answer to an effect")
        assert await inbox.take(messages("a"), pay) == []
        assert not cuts
        cuts.append("the answer to a claim")
        async with inbox.claim(messages("a", "b")) as fresh:
            assert not cuts
            assert names(fresh) == ["b"]
            cuts.append("the answer to a mark")
        assert not cuts
        assert await inbox.take(messages("b"), pay) == []
    assert int(await redis.get("paid")) == 1


async def test_an_effect_that_would_never_run_is_refused(redis):
    async def effect(pipeline, fresh):
        pay(pipeline, fresh)

    inbox = RedisInbox(redis, "billing", keep=WEEK)
    with pytest.raises(IllegalArgument, match="coroutine"):
        await inbox.take(messages("a"), effect)
    assert await redis.keys() == []


async def test_an_unreachable_redis_is_no_message_taken():
    async with Redis(port=free_port(), retry=Retry(NoBackoff(), 0)) as redis:
        inbox = RedisInbox(redis, "billing", keep=WEEK)
        with pytest.raises(RedisUnreachable):
            await inbox.take(messages("a"), pay)
        with pytest.raises(RedisUnreachable):
            async with inbox.claim(messages("a")):
                pytest.fail("claimed")


async def test_what_no_inbox_can_store_is_refused():
    async with Redis() as redis:
        for wrong in ({"keep": timedelta(0)}, {"keep": 7}, {"keep": WEEK, "claim_for": None}):
            with pytest.raises(IllegalArgument, match="a timedelta above 0"):
                RedisInbox(redis, "billing", **wrong)
        with pytest.raises(IllegalArgument, match="consumer"):
            RedisInbox(redis, "", keep=WEEK)
        with pytest.raises(IllegalArgument, match="an inbox key"):
            await RedisInbox(redis, "billing", keep=WEEK).take(messages(""), pay)
