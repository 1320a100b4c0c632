"""Clients of gateways: many on one attachment, and one client heard of by several gateways."""

import asyncio
import errno

import pytest

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import receive_service_pb2 as receive_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane.broker.v1.receive_service_pb2_grpc import ReceiveServiceStub
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane_broker.clients.client_admission import ClientAdmission


class Gateway:
    """The stream of a gateway."""

    def __init__(self, broker, client_id):
        self.call = broker.clients.Attach()
        self.client_id = client_id

    async def attach(self):
        hello = client_pb.ClientHello(client_id=self.client_id, reads_records=True)
        await self.call.write(client_pb.AttachRequest(hello=hello))
        assert (await self.call.read()).WhichOneof("content") == "accepted"
        return self

    async def tell(self, *present, left=(), silent=()):
        relayed = client_pb.RelayedClients(present=present, left=left, silent=silent)
        await self.call.write(client_pb.AttachRequest(relayed_clients=relayed))

    async def hear(self):
        return await self.call.read()


def present(client_id, *groups, reachable=True, topic="orders", text="*", produces=(), user=""):
    wanted = subscription_pb.Subscription(
        topic=topic,
        filter=subscription_pb.FilterExpression(kind=subscription_pb.FILTER_KIND_TAG, text=text),
    )
    return client_pb.RelayedClient(
        hello=client_pb.ClientHello(
            client_id=client_id,
            language="JAVA",
            producer_groups=produces,
            memberships=[
                client_pb.Membership(
                    consumer_group=group,
                    model=client_pb.CONSUME_MODEL_RECEIVING,
                    subscriptions=[wanted],
                )
                for group in groups
            ],
        ),
        address="10.0.0.7:4242",
        reachable=reachable,
        user=user,
    )


@pytest.fixture
async def gateways(broker):
    first, second = Gateway(broker, "gateway-1"), Gateway(broker, "gateway-2")
    yield await first.attach(), await second.attach()
    first.call.cancel()
    second.call.cancel()


@pytest.fixture
def relayed(broker):
    """The relayed clients, by id, with the gateways by way of which they are here."""

    async def look():
        answer = await broker.clients.ListClients(client_pb.ListClientsRequest())
        return {
            each.hello.client_id: list(each.gateways) for each in answer.clients if each.gateways
        }

    return look


async def until(look, expected):
    async with asyncio.timeout(30):
        while await look() != expected:  # noqa: ASYNC110 - the other side of a wire
            await asyncio.sleep(0.005)


async def test_a_client_lives_until_no_gateway_hears_of_it(gateways, relayed):
    first, second = gateways
    await first.tell(present("a", "group"), present("b", "group"))
    await until(relayed, {"a": ["gateway-1"], "b": ["gateway-1"]})
    await second.tell(present("a", reachable=False))
    await until(relayed, {"a": ["gateway-1", "gateway-2"], "b": ["gateway-1"]})
    await first.tell(silent=["a"])
    await until(relayed, {"a": ["gateway-2"], "b": ["gateway-1"]})
    await second.tell(silent=["a"])
    await until(relayed, {"b": ["gateway-1"]})
    first.call.cancel()  # The gateway dies, and with it all that only it heard of.
    await until(relayed, {})


async def test_a_client_whose_group_cannot_be_kept_costs_others_nothing(
    gateways, relayed, monkeypatch
):
    """They share one stream, and would not be known behind it for as long as the disk is full."""
    change = ClientAdmission.change_memberships

    async def full(admission, client, memberships):
        if client.client_id == "a":
            raise OSError(errno.ENOSPC, "no space is left")
        await change(admission, client, memberships)

    monkeypatch.setattr(ClientAdmission, "change_memberships", full)
    first, _ = gateways
    await first.tell(present("a", "group"), present("b", "group"))
    await until(relayed, {"a": ["gateway-1"], "b": ["gateway-1"]})


async def test_a_client_that_left_in_peace_is_gone_at_once(gateways, relayed):
    first, second = gateways
    await first.tell(present("a"))
    await second.tell(present("a"))
    await until(relayed, {"a": ["gateway-1", "gateway-2"]})
    await first.tell(left=["a"])
    await until(relayed, {})


async def test_members_are_listed_with_their_own_address(broker, gateways, relayed):
    await broker.create_topic("orders")
    await gateways[0].tell(present("a", "group"), present("odd", "no group"))
    await until(relayed, {"a": ["gateway-1"], "odd": ["gateway-1"]})
    answer = await broker.clients.ListGroupMembers(
        client_pb.ListGroupMembersRequest(consumer_group="group")
    )
    # The one whose group cannot be is a client, and no member.
    assert [(m.client_id, m.address) for m in answer.members] == [("a", "10.0.0.7:4242")]


async def test_a_producer_is_asked_by_way_of_the_gateway_that_reaches_it(broker, gateways, relayed):
    first, second = gateways
    await broker.create_topic("orders")
    await broker.store_half("7", group="orders")
    await first.tell(present("a", reachable=False))
    await second.tell(present("a", produces=["orders"]))
    await until(relayed, {"a": ["gateway-1", "gateway-2"]})
    asking = asyncio.ensure_future(
        broker.transactions.CheckTransaction(
            transaction_pb.CheckTransactionRequest(transaction_id="7")
        )
    )
    asked = await second.hear()
    assert (asked.client_id, asked.transaction_check.unique_id) == ("a", "7")
    answer = client_pb.TransactionAnswer(
        transaction_id="7", outcome=client_pb.TRANSACTION_OUTCOME_COMMIT
    )
    await second.call.write(client_pb.AttachRequest(transaction_answer=answer, client_id="a"))
    checked = await asking
    assert (checked.client_id, checked.outcome) == ("a", client_pb.TRANSACTION_OUTCOME_COMMIT)


@pytest.mark.parametrize(
    "wrong",
    [present(""), present("a\nb"), present("x" * 256)],
)
async def test_senseless_clients_are_refused(broker, refused, gateways, wrong):
    await gateways[0].tell(wrong)
    assert (await refused(gateways[0].hear())).reason == "FIELD_INVALID"


async def test_a_client_that_attached_itself_stays_itself(broker, gateways, relayed):
    own = await Gateway(broker, "a").attach()
    await gateways[0].tell(present("a"), present("b"))
    await until(relayed, {"b": ["gateway-1"]})
    await gateways[0].tell(left=["a"])
    await gateways[0].tell(silent=["b"])
    await until(relayed, {})
    answer = await broker.clients.ListClients(client_pb.ListClientsRequest())
    assert "a" in {each.hello.client_id for each in answer.clients}
    own.call.cancel()


async def test_what_a_relayed_client_said_before_binds_nobody(broker, gateways, relayed):
    for topic in ("orders", "bills"):
        await broker.create_topic(topic)
    await broker.store("bills", [b"a"])
    await gateways[0].tell(present("a", "group", text="old"), present("b", "group", text="new"))
    await until(relayed, {"a": ["gateway-1"], "b": ["gateway-1"]})
    order = receive_pb.ReceiveOrder(
        consumer_group="group",
        client_id="a",
        subscriptions=[subscription_pb.Subscription(topic="bills")],
    )
    stub = ReceiveServiceStub(broker.channel)
    answer = await stub.ReceiveRecords(receive_pb.ReceiveRecordsRequest(order=order))
    assert [queue.topic for queue in answer.queues] == ["bills"]
