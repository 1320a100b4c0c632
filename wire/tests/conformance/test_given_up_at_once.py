"""A call that is given up within the octets that begin it."""

from __future__ import annotations

import asyncio

import grpc
import raw_frames as raw
from both_ends import serving
from raw_frames import RawPeer

import ariane_wire


class Patient(grpc.GenericRpcHandler):
    """A handler that waits, and notes how that ends."""

    def __init__(self) -> None:
        self.ends = []
        self.ended = asyncio.Event()

    def service(self, handler_call_details):
        return grpc.unary_unary_rpc_method_handler(self.wait)

    async def wait(self, request, context):
        try:
            await asyncio.Event().wait()
        except BaseException as error:
            self.ends.append(type(error))
            await asyncio.sleep(0)  # What cleans up may wait, too.
            raise
        finally:
            self.ended.set()


async def test_its_handler_is_cancelled_like_any_other():
    patient = Patient()
    async with serving(ariane_wire, patient) as address, await RawPeer.introduced(address) as peer:
        peer.write(raw.whole_call(1, "/patient.Patient/Wait") + raw.rst_stream(1))
        async with asyncio.timeout(10):
            await patient.ended.wait()
    assert patient.ends == [asyncio.CancelledError]
