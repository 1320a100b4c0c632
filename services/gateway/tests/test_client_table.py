"""Who lives: by calls, by streams, and no more than so many."""

from ariane_gateway.clients.client_table import SILENCE_S_MAX, ClientTable


class Audience:
    def __init__(self):
        self.heard = []

    def present(self, portraits):
        self.heard += [(each.client_id, each.reachable) for each in portraits]

    def gone(self, *, left=(), silent=()):
        self.heard += [("left", *left)] if left else []
        self.heard += [("silent", *silent)] if silent else []


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


def make(clients_max=10):
    clock = Clock()
    table = ClientTable(clock, clients_max=clients_max)
    table.audience = Audience()
    return table, clock, table.audience.heard


def hear(table, client_id, user=""):
    return table.heard(client_id, "GO", "5.1.4", "10.0.0.7:4242", user)


def test_a_client_that_is_silent_is_gone_unless_its_stream_is_open():
    table, clock, heard = make()
    hear(table, "a")
    client = hear(table, "b")
    table.opens(client, print)
    table.changed(client)
    clock.now_s = SILENCE_S_MAX + 1
    table.forget_silent()
    assert heard == [("a", False), ("b", False), ("b", True), ("silent", "a")]
    table.closes(client, print)
    table.forget_silent()
    assert heard[4:] == [("b", False), ("silent", "b")]
    assert len(table) == 0


def test_each_call_is_a_sign_of_life_and_nothing_new():
    table, clock, heard = make()
    for now_s in (0.0, 40.0, 80.0, 120.0):
        clock.now_s = now_s
        hear(table, "a")
        table.forget_silent()
    table.leaves("a", "")
    table.leaves("a", "")
    assert heard == [("a", False), ("left", "a")]


def test_clients_beyond_the_limit_are_served_and_not_known():
    table, _, heard = make(clients_max=1)
    hear(table, "a")
    other = hear(table, "b")
    table.opens(other, print)
    table.changed(other)
    table.closes(other, print)
    assert (heard, len(table)) == ([("a", False)], 1)


def test_a_client_with_a_stream_is_known_by_that_once_there_is_room():
    table, _, heard = make(clients_max=1)
    hear(table, "a")
    client = hear(table, "b")
    table.opens(client, print)
    table.leaves("a", "")
    hear(table, "b")
    table.says(client)
    table.changed(client)
    assert table.find("b") is client
    assert heard[-1] == ("b", True)


def test_the_id_of_a_client_belongs_to_its_user():
    table, clock, heard = make()
    client = hear(table, "a", "anna")
    table.opens(client, print)
    other = hear(table, "a", "bert")
    table.opens(other, repr)
    other.produces = ("orders",)
    table.changed(other)
    table.leaves("a", "bert")
    assert (table.find("a"), client.streams, client.produces) == (client, [print], ())
    assert (heard, table.stream_count) == ([("a", False)], 1)
    # Once its owner is gone, it is free.
    table.closes(client, print)
    clock.now_s = SILENCE_S_MAX + 1
    table.forget_silent()
    table.says(other)
    table.changed(other)
    assert table.find("a") is other
    assert heard[1:] == [("a", False), ("silent", "a"), ("a", True)]
