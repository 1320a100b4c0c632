"""Connections over the limit of an address or a user, at a real server."""

from __future__ import annotations

import grpc
import pytest

import ariane_wire
from ariane.common.v1 import quota_pb2 as pb
from ariane.namesrv.v1.route_service_pb2 import GetRouteRequest, GetRouteResponse
from ariane_servicekit import Machine
from ariane_testkit.access_rules import rules_of, telling
from ariane_testkit.identities import as_user, stated_identity

METHOD = "/ariane.namesrv.v1.RouteService/GetRoute"


@pytest.fixture
def limited(probe_app, serve):
    """Serve a closed process, and tell it a limit of connections."""

    async def get_route(request, context):
        return GetRouteResponse()

    probe_app.methods = {"GetRoute": get_route}

    async def tell(admin, subject, name, limit):
        stated = rules_of(admin.version + 1, "anna: allow GET topic *", "ben: allow GET topic *")
        figure = pb.QUOTA_FIGURE_CONNECTIONS
        stated.quotas.add(figure=figure, subject=subject, name=name, limit=limit)
        await admin.push_rules(stated)

    return serve(probe_app, Machine(identify=stated_identity), access="closed"), tell


async def asked(channel, user):
    call = channel.unary_unary(METHOD, request_serializer=GetRouteRequest.SerializeToString)
    try:
        await call(GetRouteRequest(topic="t"), metadata=as_user(user), timeout=10)
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return "answered"


async def test_a_user_has_so_many_connections_and_others_their_own(limited):
    serving, tell = limited
    async with serving as served, telling(served.channel) as admin:
        await tell(admin, pb.QUOTA_SUBJECT_USER, "", 2)
        channels = [ariane_wire.insecure_channel(str(served.address)) for _ in range(3)]
        assert [await asked(each, "anna") for each in channels] == [
            *("answered", "answered"),
            "RESOURCE_EXHAUSTED",
        ]
        assert await asked(channels[2], "ben") == "answered"
        # What was taken stays taken, until it is gone.
        assert await asked(channels[0], "anna") == "answered"
        await channels[0].close()
        for _ in range(100):
            if (told := await asked(channels[2], "anna")) == "answered":
                break
        assert told == "answered"
        for channel in channels[1:]:
            await channel.close()


async def test_an_address_has_so_many_connections(limited):
    serving, tell = limited
    async with serving as served, telling(served.channel) as admin:
        await tell(admin, pb.QUOTA_SUBJECT_ADDRESS, "127.0.0.0/8", 2)
        channels = [ariane_wire.insecure_channel(str(served.address)) for _ in range(2)]
        # The probe's own is the first of them.
        assert await asked(channels[0], "anna") == "answered"
        assert await asked(channels[1], "anna") == "UNAVAILABLE"
        for channel in channels:
            await channel.close()
