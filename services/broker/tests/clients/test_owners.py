"""Which members of a group read queues themselves."""

from ariane_broker.clients.attached_client import Hello
from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.members.membership import ConsumeModel, Membership
from ariane_testkit.virtual_clock import VirtualClock


def test_owners_are_the_members_that_do_not_receive():
    table = ClientTable(VirtualClock(), flags_conflicts=lambda group: False)

    def membership(model):
        return (Membership(consumer_group="g", model=model),)

    table.attach(Hello(client_id="a", memberships=membership(ConsumeModel.RECEIVING)), "x")
    assert list(table.owners("g")) == []
    table.detach(table.find("a"))
    hello = Hello(client_id="b", memberships=membership(ConsumeModel.CLUSTERING))
    client = table.attach(hello, "x")
    assert list(table.owners("g")) == [client]
    table.change_memberships(client, membership(ConsumeModel.RECEIVING))
    assert list(table.owners("g")) == []
    table.change_memberships(client, membership(ConsumeModel.BROADCASTING))
    assert list(table.owners("g")) == [client]
    table.detach(client)
    assert list(table.owners("g")) == []
    assert table._owners == {}
