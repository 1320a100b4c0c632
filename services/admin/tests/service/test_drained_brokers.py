"""Which brokers count as drained where name servers differ."""

from types import SimpleNamespace

from ariane.admin.v1.cluster_service_pb2 import ListBrokersRequest
from ariane.broker.v1.broker_service_pb2 import GetBrokerStateResponse
from ariane.namesrv.v1.route_pb2 import BrokerIdentity, BrokerLiveness
from ariane.namesrv.v1.route_service_pb2 import ListBrokersResponse
from ariane_admin.servicers.cluster import ClusterServicer
from ariane_admin.servicers.rates import RateMemory
from ariane_servicekit import Page


def liveness(name, *, wiped=False):
    return BrokerLiveness(identity=BrokerIdentity(broker_name=name), write_wiped=wiped)


class Doors:
    """To brokers that answer, and to name servers of which the first has missed a drain."""

    name_servers = ("first", "second")

    async def known_to(self, name_server):
        if name_server == "first":
            return [liveness("broker-a")]
        return [liveness("broker-a", wiped=True), liveness("broker-b")]

    def routes(self, name_server):
        async def nobody_away(request, **options):
            return ListBrokersResponse()

        return SimpleNamespace(ListBrokers=nobody_away)

    def brokers(self, address):
        async def state(request, **options):
            return GetBrokerStateResponse(writable=True)

        return SimpleNamespace(GetBrokerState=state)


async def test_a_broker_is_drained_where_any_name_server_keeps_its_write_permission_back():
    cluster = SimpleNamespace(doors=Doors(), page=lambda entries, *_, **__: Page(entries, ""))
    servicer = ClusterServicer(cluster, RateMemory(), clock=None)

    listed = (await servicer.ListBrokers(ListBrokersRequest(), None)).brokers

    found = [one.liveness for one in listed]
    assert [(one.identity.broker_name, one.write_wiped) for one in found] == [
        ("broker-a", True),
        ("broker-b", False),
    ]
