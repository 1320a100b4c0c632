"""Connections over the limit of an address or a user, at a real server."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack, suppress
from dataclasses import replace

import grpc
import pytest

import ariane_wire
from ariane.common.v1 import quota_pb2 as pb
from ariane.common.v1.process_service_pb2 import UpdateProcessSettingRequest
from ariane.common.v1.process_service_pb2_grpc import ProcessServiceStub
from ariane.namesrv.v1.route_service_pb2 import GetRouteRequest, GetRouteResponse
from ariane_servicekit import Machine
from ariane_servicekit.rpc import server
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


async def ended(*connections):
    """Which of some connections the server has ended first."""
    loop = asyncio.get_running_loop()

    async def until_end(one):
        with suppress(ConnectionResetError):
            while await loop.sock_recv(one, 1 << 12):
                pass

    waiting = [asyncio.create_task(until_end(each)) for each in connections]
    async with asyncio.timeout(60):
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
    return [place for place, each in enumerate(waiting) if each in done]


@pytest.fixture
def few(monkeypatch):
    """Servers take eight connections. Gives what connects to one from a host."""
    real = server.server_options
    monkeypatch.setattr(
        server, "server_options", lambda settings: replace(real(settings), connections_max=8)
    )
    with ExitStack() as opened:

        def connect(served, host):
            one = opened.enter_context(socket.socket())
            one.bind((host, 0))
            one.connect(("127.0.0.1", served.address.port))
            one.setblocking(False)  # noqa: FBT003 - the name of the method says it.
            return one

        yield connect


async def settled(connections):
    """Wait until the server has taken them: it speaks first."""
    for one in connections:
        await asyncio.wait_for(asyncio.get_running_loop().sock_recv(one, 9), 60)


@pytest.mark.parametrize("access", ["open", "closed"])
async def test_of_a_closed_process_connections_of_strangers_end_for_others(
    probe_app, serve, few, access
):
    """Two hosts would have all; where nobody is asked who he is, nobody is a stranger."""
    async with serve(probe_app, access=access) as served:
        strangers = [few(served, "127.0.0.2") for _ in range(8)]
        await settled(strangers)
        newcomer = few(served, "127.0.0.3")
        assert await ended(*strangers, newcomer) == ([8] if access == "open" else [0])


@pytest.mark.parametrize("access", ["open", "learn"])
async def test_who_came_before_a_process_was_closed_is_a_stranger_as_well(
    probe_app, serve, few, access
):
    async with serve(probe_app, access=access) as served:
        await served.channel.channel_ready()
        strangers = [few(served, "127.0.0.2") for _ in range(7)]
        await settled(strangers)
        newcomer = few(served, "127.0.0.3")
        assert await ended(*strangers, newcomer) == [7]
        request = UpdateProcessSettingRequest(name="access", value="closed")
        await ProcessServiceStub(served.channel).UpdateProcessSetting(request)
        newcomer = few(served, "127.0.0.3")
        assert await ended(*strangers, newcomer) == [0]
