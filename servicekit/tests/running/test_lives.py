"""A service that asks to be composed anew lives again in the same process."""

from __future__ import annotations

import asyncio

from ariane_servicekit import StopRequest, serving
from ariane_servicekit.configuration.settings import ServiceSettings
from ariane_servicekit.rpc.error_status import NO_RULES


class Settings(ServiceSettings):
    service_name = "turning"


class Turning:
    """Notes its life."""

    error_rules = NO_RULES
    open_while_draining = ()
    rpc_services = ()

    def __init__(self, stop, notes):
        self._stop = stop
        self._notes = notes

    async def recover(self, address):
        self._notes.append(("recover", str(address)))

    async def serve_started(self, address):
        if len(self._notes) == 1:
            self._stop.request("to become something else", anew=True)
            await asyncio.Event().wait()  # The start is given up.

    async def drain(self):
        self._notes.append("drain")

    async def stop(self):
        self._notes.append("stop")


async def test_a_service_lives_again_on_the_same_address_and_is_ready_once():
    notes = []
    settings = Settings(listen="127.0.0.1:0")
    async with serving(settings, lambda _, stop: Turning(stop, notes)) as address:
        begun = ("recover", str(address))
        assert notes == [begun, "drain", "stop", begun]
    assert notes[4:] == ["drain", "stop"]


async def test_a_stop_goes_before_a_restart():
    stop = StopRequest()
    stop.request("to become something else", anew=True)
    stop.request("SIGTERM")
    assert not stop.take_anew()
    assert stop.requested
    stop = StopRequest()
    stop.request("to become something else", anew=True)
    assert stop.take_anew()
    assert not stop.requested
