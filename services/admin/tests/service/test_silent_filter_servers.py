"""The service of filters at two FilterServers, one of which is silent."""

# ruff: noqa: N802 - methods are named by the contract.

from datetime import UTC, datetime

import pytest

from ariane.admin.v1 import filter_service_pb2 as filter_pb
from ariane.filter.v1 import filter_service_pb2 as filter_rpc
from ariane_admin.servicers.filters import FilterServicer
from ariane_admin.servicers.public_errors import ADMIN_ERROR_RULES
from ariane_sdk import LiveBroker
from ariane_sdk.errors import CallError, ServiceUnavailable
from ariane_servicekit import ErrorTranslator

NAMED = {"filter": "late", "version": "0" * 64}


class FilterServers:
    """Each has the version, or has it not, or is silent."""

    def __init__(self, **states):
        self.states = states
        self.deleted = []
        self.doors = self
        self.translator = ErrorTranslator(ADMIN_ERROR_RULES)

    async def primaries(self):
        now, brokers = datetime.now(UTC), {}
        for address in self.states:
            brokers.setdefault(address[0], []).append(address)
        return [
            LiveBroker("main", name, 0, name, "", now, 1, tuple(addresses))
            for name, addresses in brokers.items()
        ]

    def filters(self, address):
        return Stub(self, address)


class Nobody:
    """The context of a call that says nothing besides its request."""

    @staticmethod
    def invocation_metadata():
        return ()


class Stub:
    """One of them."""

    def __init__(self, all_of_them, address):
        self.all, self.address = all_of_them, address

    async def GetFilter(self, request, **_):
        state = self.all.states[self.address]
        if state == "silent":
            raise ServiceUnavailable(f"{self.address} does not answer")
        if state == "absent":
            error = CallError("not found")
            error.reason = "FILTER_NOT_FOUND"
            raise error
        return filter_rpc.GetFilterResponse()

    async def DeleteFilter(self, request, **_):
        self.all.deleted.append(self.address)
        return filter_rpc.DeleteFilterResponse()


async def deleted(servers):
    request = filter_pb.DeleteFilterRequest(**NAMED)
    answer = await FilterServicer(servers).DeleteFilter(request, Nobody())
    return {each.address: each.HasField("error") for each in answer.outcomes}


async def test_a_silent_server_is_told_of_for_it_may_keep_the_version():
    servers = FilterServers(a1="kept", b1="silent", c1="absent")
    assert await deleted(servers) == {"a1": False, "b1": True}


async def test_a_silent_server_whose_broker_has_another_keeps_nothing():
    assert await deleted(FilterServers(a1="silent", a2="kept")) == {"a2": False}


async def test_what_is_absent_at_some_is_not_said_to_be_absent_while_one_is_silent():
    with pytest.raises(ServiceUnavailable):
        await deleted(FilterServers(a1="absent", b1="silent"))
