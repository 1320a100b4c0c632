"""Connections that end at every frame of a call: what the client says is what the handler saw."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
import pytest
from both_ends import IMPLEMENTATIONS, serving
from cutting_proxy import Cut, CuttingProxy, proxying

MESSAGE = bytes(range(256)) * 100  # Of more than one frame.


class Witness(grpc.GenericRpcHandler):
    """Knows whether a handler has begun, what it was given, and whether it came to its end."""

    def __init__(self) -> None:
        self.begun = 0
        self.taken = 0
        self.ended = 0

    def service(self, handler_call_details: Any) -> Any:
        name = handler_call_details.method.rpartition("/")[2]
        if name == "Once":
            return grpc.unary_unary_rpc_method_handler(self.once)
        return grpc.stream_stream_rpc_method_handler(self.many)

    async def once(self, request: bytes, context: Any) -> bytes:
        self.begun += 1
        self.taken += 1
        self.ended += 1
        return request

    async def many(self, requests: Any, context: Any) -> Any:
        self.begun += 1
        async for request in requests:
            self.taken += 1
            yield request
        self.ended += 1


async def unary(channel: Any) -> int:
    """How many responses there are."""
    return int(await channel.unary_unary("/cut.Cut/Once")(MESSAGE) == MESSAGE)


async def ping_pong(channel: Any) -> int:
    """The same, of a stream of three messages."""
    call = channel.stream_stream("/cut.Cut/Many")()
    count = 0
    for _ in range(3):
        await call.write(MESSAGE)
        if await call.read() is grpc.aio.EOF:
            break
        count += 1
    await call.done_writing()
    if await call.read() is grpc.aio.EOF and await call.code() is grpc.StatusCode.OK:
        return count
    raise grpc.aio.AioRpcError(await call.code(), (), ())


CALLS = {"unary": unary, "stream": ping_pong}


async def cut_call(pair: tuple[str, str], call: Any, cut: Cut | None) -> Any:
    """Make one call on a connection that is cut; client's outcome, witness and proxy."""
    witness = Witness()
    async with serving(IMPLEMENTATIONS[pair[1]], witness) as server:
        proxy = CuttingProxy(server, cut)
        async with (
            proxying(proxy) as address,
            IMPLEMENTATIONS[pair[0]].insecure_channel(address) as channel,
        ):
            try:
                outcome = await call(channel)
            except grpc.RpcError as failure:
                outcome = failure
                # The connection is gone, or none was ever made.
                await proxy.settled.wait()
    return outcome, witness, proxy


# Of our client: a call of grpcio's waits for ever now and then when its connection is cut.
CASES = [(("wire", server), name) for server in IMPLEMENTATIONS for name in CALLS]


@pytest.mark.parametrize(
    ("pair", "name"), CASES, ids=[f"{'-'.join(pair)}-{name}" for pair, name in CASES]
)
async def test_a_cut_at_every_frame_leaves_a_true_verdict(pair, name):
    whole, witness, proxy = await cut_call(pair, CALLS[name], None)
    assert whole
    assert witness.ended == 1
    lengths = {way: len(passed) for way, passed in proxy.passed.items()}
    known = 0
    for way, length in lengths.items():
        for after in range(length):
            for octets_more in (0, 5, 9):
                cut = Cut(way, after, octets_more)
                outcome, witness, _ = await cut_call(pair, CALLS[name], cut)
                known += judge(outcome, witness, cut)
    # The connection ended before the call could be written: the client knows that.
    assert known


def judge(outcome: Any, witness: Witness, cut: Cut) -> bool:
    """Hold the client's words against the handler; whether the client says: never processed."""
    if not isinstance(outcome, grpc.RpcError):
        assert witness.ended == 1, cut
        return False
    assert outcome.code() is grpc.StatusCode.UNAVAILABLE, cut
    if outcome.never_processed:
        assert witness.begun == 0, f"{cut}: said never processed, and a handler began"
    return outcome.never_processed
