"""Requests of a stream: back-pressure, order of answers, and an end that leaves nobody guessing."""

import asyncio

import grpc
import pytest

from ariane_servicekit import Call, ServiceError, feature_not_available
from ariane_servicekit.rpc.calls import enter_call
from ariane_servicekit.rpc.request_stream import RequestStreams


class ScriptedStream:
    """The server's end of a stream: requests that are there already, answers that are kept."""

    def __init__(self, requests, *, ends=True):
        self._requests = list(requests)
        self._ends = ends
        self.read_count = 0
        self.answers = []

    async def read(self):
        await asyncio.sleep(0)
        if self._requests:
            self.read_count += 1
            return self._requests.pop(0)
        if self._ends:
            return grpc.aio.EOF
        return await asyncio.get_running_loop().create_future()

    async def write(self, answer):
        await asyncio.sleep(0)
        self.answers.append(answer)


class GatedWorker:
    """Answers when it is told to; some requests at once."""

    def __init__(self):
        self.gates = {}

    def work(self, request):
        if request == "broken":
            raise feature_not_available(request)
        if request == "quick":
            return request
        self.gates[request] = asyncio.get_running_loop().create_future()
        return self.gates[request]

    def refusal(self, request, status):
        return f"{request}: {status.code}"


class Errors:
    def refuse(self, call, error):
        return error


@pytest.fixture
def worker():
    return GatedWorker()


@pytest.fixture
def streams():
    return RequestStreams(lambda: feature_not_available("the stream"), in_work_max=3)


def serve(streams, context, worker):
    async def call():
        enter_call(Call("/x/Y", "id", context, errors=Errors()))
        await streams.serve(context, worker)

    return asyncio.create_task(call())


async def until(is_so):
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - what is waited for tells nobody.
            await asyncio.sleep(0)


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


async def test_no_more_is_read_than_may_be_in_work(streams, worker):
    stream = ScriptedStream(range(8))
    serving = serve(streams, stream, worker)
    await until(lambda: stream.read_count == 3)
    await settle()
    assert stream.read_count == 3
    worker.gates[1].set_result("one")
    await until(lambda: stream.read_count == 4)
    await settle()
    assert (stream.read_count, stream.answers) == (4, ["one"])
    for number in range(8):
        await until(lambda: number in worker.gates)  # noqa: B023 - awaited at once.
        if number != 1:
            worker.gates[number].set_result(number)
    await serving
    assert sorted(stream.answers, key=str) == [0, 2, 3, 4, 5, 6, 7, "one"]


async def test_a_request_fails_alone(streams, worker):
    stream = ScriptedStream(["quick", "broken", "quick"])
    await serve(streams, stream, worker)
    assert stream.answers == ["quick", f"broken: {grpc.StatusCode.UNIMPLEMENTED.value[0]}", "quick"]


async def test_a_closed_stream_answers_what_it_has_read_and_then_ends(streams, worker):
    stream = ScriptedStream(["slow"], ends=False)
    serving = serve(streams, stream, worker)
    await until(lambda: "slow" in worker.gates)
    streams.close()
    await settle()
    assert not serving.done()
    worker.gates["slow"].set_result("done")
    with pytest.raises(ServiceError):
        await serving
    assert stream.answers == ["done"]


async def test_a_stream_that_begins_with_silence_ends_and_one_that_has_spoken_may_be_silent(worker):
    streams = RequestStreams(lambda: feature_not_available("the stream"), first_request_s=0.01)
    with pytest.raises(ServiceError, match="no request came") as raised:
        await serve(streams, ScriptedStream([], ends=False), worker)
    assert raised.value.row.name == "DEADLINE_PASSED"
    spoken = ScriptedStream(["quick"], ends=False)
    serving = serve(streams, spoken, worker)
    await until(lambda: spoken.answers == ["quick"])
    await asyncio.sleep(0.05)
    assert not serving.done()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_whoever_goes_away_leaves_nothing_behind(streams, worker):
    stream = ScriptedStream(["slow"], ends=False)
    serving = serve(streams, stream, worker)
    await until(lambda: "slow" in worker.gates)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    await settle()
    assert worker.gates["slow"].cancelled()
    assert len(asyncio.all_tasks()) == 1


class GatedStream(ScriptedStream):
    """Writes when it is told to."""

    def __init__(self, requests, **ends):
        super().__init__(requests, **ends)
        self.writes = []

    async def write(self, answer):
        written = asyncio.get_running_loop().create_future()
        self.writes.append(written)
        self.answers.append(answer)
        await written


async def test_an_answer_is_written_before_the_next_request_is_read(streams):
    class Ordered(ScriptedStream):
        async def read(self):
            self.answers.append("read")
            return await super().read()

        async def write(self, answer):
            self.answers.append(answer)
            await asyncio.sleep(0)

    stream = Ordered(["quick", "quick"])
    await serve(streams, stream, GatedWorker())
    assert stream.answers == ["read", "quick", "read", "quick", "read"]


async def test_one_answer_is_written_at_a_time_and_in_order(streams, worker):
    stream = GatedStream(["first", "second", "third"])
    serving = serve(streams, stream, worker)
    await until(lambda: len(worker.gates) == 3)
    for request in ("second", "first", "third"):
        worker.gates[request].set_result(request)
        await settle()
    for count in (1, 2, 3):
        assert len(stream.writes) == count
        assert not serving.done()
        stream.writes[-1].set_result(None)
        await settle()
    await serving
    assert stream.answers == ["second", "first", "third"]


async def test_a_write_that_fails_ends_the_stream_and_what_is_in_work(streams, worker):
    stream = GatedStream(["quick", "slow"], ends=False)
    serving = serve(streams, stream, worker)
    await until(lambda: stream.writes and "slow" in worker.gates)
    stream.writes[0].set_exception(OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        await serving
    await settle()
    assert worker.gates["slow"].cancelled()
    assert len(asyncio.all_tasks()) == 1
