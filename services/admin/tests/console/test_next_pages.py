"""Links to the next page of a list."""

from types import SimpleNamespace

from starlette.datastructures import QueryParams

from ariane.admin.v1 import client_service_pb2 as client_pb
from ariane_admin.console.blocks import Table
from ariane_admin.console.pages.groups import clients


async def test_the_next_page_of_clients_is_one_of_the_same_search():
    async def ask(_method, asked):
        assert (asked.consumer_group, asked.producer_group) == ("billing", "shop")
        return client_pb.ListClientsResponse(next_page_token="2")

    ask.api = SimpleNamespace(clients=SimpleNamespace(ListClients=None))
    request = SimpleNamespace(query_params=QueryParams(group="billing", producers="shop"))
    page = await clients(ask, request)
    [table] = [block for block in page.blocks if isinstance(block, Table)]
    assert table.more == "/clients?group=billing&producers=shop&token=2"
