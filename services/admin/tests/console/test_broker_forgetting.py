"""A broker that has left, on the page of the cluster: shown as away, and forgotten."""

from contextlib import AsyncExitStack

import pytest
from grpc import aio

from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.namesrv.v1 import registration_service_pb2 as registering
from ariane.namesrv.v1 import route_pb2
from ariane.namesrv.v1.registration_service_pb2_grpc import RegistrationServiceStub

GONE = "bf-away"
COMING = registering.RegisterBrokerRequest(
    identity=route_pb2.BrokerIdentity(
        cluster_name="DefaultCluster", broker_name=GONE, address="127.0.0.1:1"
    ),
    incarnation="first",
    topics=[
        route_pb2.TopicRegistration(
            topic="bf-kept",
            read_queue_count=1,
            write_queue_count=1,
            permission=route_pb2.TOPIC_PERMISSION_READ_WRITE,
        )
    ],
    writable=True,
)
GOING = registering.UnregisterBrokerRequest(
    cluster_name="DefaultCluster", broker_name=GONE, incarnation="first"
)


@pytest.fixture
async def name_servers(cluster):
    """What registers with each name server."""
    async with AsyncExitStack() as life:
        yield [
            RegistrationServiceStub(await life.enter_async_context(aio.insecure_channel(address)))
            for address in cluster.name_servers.split(",")
        ]


async def test_a_broker_that_has_left_is_shown_as_away_and_forgotten(
    browser, name_servers, entries
):
    first, second = name_servers
    for each in name_servers:
        await each.RegisterBroker(COMING)
    await first.UnregisterBroker(GOING)
    shown = (await browser.get("/cluster")).text
    assert "Brokers that are away" not in shown, "it lives for the other name server"
    data = {"csrf": await browser.token(), "broker": GONE}
    refused = await browser.post("/cluster/forget", data=data)
    assert refused.status_code == 409
    assert f"broker {GONE} at 127.0.0.1:1 is registered with name server" in refused.text

    await second.UnregisterBroker(GOING)
    shown = (await browser.get("/cluster")).text
    _, _, away = shown.partition("Brokers that are away")
    assert GONE in away
    assert 'action="/cluster/forget"' in away
    asked = (await browser.post("/cluster/forget", data=data)).text
    assert f"Forget broker {GONE}, and the offsets of groups that only it has?" in asked
    assert "Routes of 1 topic would no longer name it as away. It is away since 2" in asked
    assert GONE in (await browser.get("/cluster")).text, "asking changes nothing"

    done = await browser.change("/cluster/forget", broker=GONE)
    assert f"Routes of 1 topic no longer name broker {GONE} as away." in done.text
    assert "Brokers that are away" not in (await browser.get("/cluster")).text
    [entry] = await entries(resource_name=GONE)
    assert entry.method.endswith("ForgetBroker")
    assert entry.outcome == audit_pb.AUDIT_OUTCOME_DONE
    assert entry.source_address.startswith("127.0.0.1:")
