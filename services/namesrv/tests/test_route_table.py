from __future__ import annotations

from dataclasses import replace

import pytest

from ariane_namesrv.registration import BrokerKey, Permission
from ariane_namesrv.route_table import RouteTable
from ariane_servicekit import ServiceError

READ_WRITE = Permission.READ | Permission.WRITE
KEY = BrokerKey("c1", "broker-a", 0)


def refused(call, *arguments) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        call(*arguments)
    return caught.value


def names(routes):
    return [(route.cluster_name, route.broker_name) for route in routes]


class TestRegistration:
    def test_a_topic_is_where_its_brokers_say(self, table, registration):
        table.register(registration("broker-b", ("orders", "bills")))
        table.register(registration("broker-a", ("orders",)))
        table.register(registration("broker-a", ("orders",), cluster="c0"))
        assert names(table.route("orders")) == [
            ("c0", "broker-a"),
            ("c1", "broker-a"),
            ("c1", "broker-b"),
        ]
        assert names(table.route("bills")) == [("c1", "broker-b")]
        assert table.route("unknown") == []

    def test_topics_that_are_missing_leave_the_route(self, table, registration):
        table.register(registration(topics=("orders", "bills")))
        table.register(registration(topics=("bills", "news"), topics_version=2))
        assert table.route("orders") == []
        assert table.topics() == ["bills", "news"]

    def test_the_layout_is_that_of_the_announcement(self, table, registration):
        table.register(registration(queue_count=7, zone="room-1", port=1))
        [route] = table.route("orders")
        assert (route.read_queue_count, route.write_queue_count) == (7, 7)
        assert (route.addresses, route.zone) == ({0: "127.0.0.1:1"}, "room-1")
        assert route.permission == READ_WRITE

    def test_an_older_announcement_of_one_process_changes_nothing(self, table, registration, clock):
        table.register(registration(topics=("new",), topics_version=5))
        clock.advance(100)
        table.register(registration(topics=("old",), topics_version=4))
        assert table.topics() == ["new"]
        # But it is a sign of life.
        clock.advance(100)
        assert table.expire() == []

    def test_a_restart_begins_its_versions_anew(self, table, registration):
        table.register(registration(topics=("old",), topics_version=5))
        table.register(registration(topics=("new",), topics_version=1, incarnation="second"))
        assert table.topics() == ["new"]

    def test_the_table_is_bounded_by_living_brokers(self, clock, registration):
        table = RouteTable(clock, brokers_max=2)
        table.register(registration("broker-a"))
        clock.advance(100)
        table.register(registration("broker-b"))
        error = refused(table.register, registration("broker-c"))
        assert error.row.name == "SERVICE_BUSY"
        table.register(registration("broker-b", incarnation="second"))
        clock.advance(100)
        table.register(registration("broker-c"))
        assert names(table.route("orders")) == [("c1", "broker-b"), ("c1", "broker-c")]


class TestAddressTaken:
    def test_a_broker_that_is_where_another_was_takes_its_place(self, table, registration):
        table.register(registration("broker-a", port=1))
        table.register(registration("broker-b", port=2))
        # They have exchanged their addresses, and nobody has said goodbye.
        table.register(registration("broker-b", port=1, incarnation="second", epoch=1))
        assert names(table.route("orders")) == [("c1", "broker-b")]
        table.register(registration("broker-a", port=2, incarnation="second"))
        [a, b] = table.route("orders")
        assert (a.addresses, b.addresses) == ({0: "127.0.0.1:2"}, {0: "127.0.0.1:1"})

    def test_another_cluster_may_be_there_and_replicas_are_of_one_name(self, table, registration):
        table.register(registration("broker-a", port=1))
        table.register(registration("broker-a", port=1, broker_id=1, incarnation="second"))
        assert table.route("orders")[0].addresses.keys() == {0, 1}
        table.register(registration("broker-a", port=1, cluster="c2", incarnation="third"))
        assert names(table.route("orders")) == [("c2", "broker-a")]


class TestNameTaken:
    def test_a_second_process_elsewhere_is_refused_while_the_first_lives(
        self, table, registration, clock
    ):
        table.register(registration(port=1))
        second = registration(port=2, incarnation="second")
        clock.advance(120)
        error = refused(table.register, second)
        assert error.row.name == "BROKER_NAME_TAKEN"
        assert error.metadata == {
            "cluster": "c1",
            "broker": "broker-a",
            "broker_id": "0",
            "address": "127.0.0.1:1",
        }
        assert table.route("orders")[0].addresses == {0: "127.0.0.1:1"}
        # Found silent, though no scan has come by yet.
        clock.advance(0.001)
        table.register(second)
        assert table.route("orders")[0].addresses == {0: "127.0.0.1:2"}

    def test_a_restart_on_its_address_replaces_at_once(self, table, registration):
        table.register(registration(topics=("old",)))
        table.register(registration(topics=("new",), incarnation="second"))
        assert table.topics() == ["new"]

    def test_a_process_may_change_its_address(self, table, registration):
        table.register(registration(port=1))
        table.register(registration(port=2))
        assert table.route("orders")[0].addresses == {0: "127.0.0.1:2"}

    def test_a_goodbye_frees_the_name(self, table, registration):
        table.register(registration(port=1))
        assert table.unregister(KEY, "first")
        table.register(registration(port=2, incarnation="second"))

    def test_other_ids_names_and_clusters_are_other_brokers(self, table, registration):
        table.register(registration(port=1))
        table.register(registration(port=2, broker_id=1, incarnation="second"))
        table.register(registration("broker-b", port=3, incarnation="third"))
        table.register(registration(cluster="c2", port=4, incarnation="fourth"))
        assert len(table.brokers()) == 4


class TestHeartbeat:
    def test_keeps_alive(self, table, registration, clock):
        table.register(registration())
        for _ in range(5):
            clock.advance(119)
            assert table.heartbeat(KEY, "first", 1).key == KEY
            assert table.expire() == []

    @pytest.mark.parametrize(
        "said",
        [
            (BrokerKey("c1", "broker-b", 0), "first", 1),
            (BrokerKey("c1", "broker-a", 1), "first", 1),
            (KEY, "second", 1),
            (KEY, "first", 2),
            (KEY, "first", 0),
        ],
    )
    def test_of_what_is_not_known_asks_for_a_registration(self, table, registration, clock, said):
        table.register(registration())
        clock.advance(100)
        error = refused(table.heartbeat, *said)
        assert error.row.name == "BROKER_NOT_REGISTERED"
        # And it is no sign of life.
        clock.advance(100)
        assert table.expire() == [KEY]


class TestSilence:
    def test_a_silent_broker_leaves_with_the_scan(self, table, registration, clock):
        table.register(registration("broker-a"))
        clock.advance(60)
        table.register(registration("broker-b"))
        clock.advance(60)
        assert table.expire() == []
        clock.advance(1)
        assert names(table.route("orders")) == [("c1", "broker-a"), ("c1", "broker-b")]
        assert table.expire() == [KEY]
        assert names(table.route("orders")) == [("c1", "broker-b")]
        clock.advance(60)
        table.expire()
        assert table.route("orders") == []
        assert table.topics() == []
        assert table.brokers() == []

    def test_a_broker_may_ask_for_another_limit(self, table, registration, clock):
        table.register(registration("broker-a", silence_s_max=5))
        table.register(registration("broker-b", silence_s_max=500))
        clock.advance(6)
        assert table.expire() == [KEY]
        clock.advance(400)
        assert table.expire() == []

    def test_a_goodbye_is_at_once(self, table, registration):
        table.register(registration())
        assert table.unregister(KEY, "first")
        assert table.route("orders") == []
        assert not table.unregister(KEY, "first")

    def test_a_goodbye_of_an_earlier_process_is_ignored(self, table, registration):
        table.register(registration())
        table.register(registration(incarnation="second"))
        assert not table.unregister(KEY, "first")
        assert len(table.route("orders")) == 1

    def test_liveness_shows_the_wall_clock(self, table, registration, clock):
        table.register(registration())
        begin_ms = clock.now_ms()
        clock.advance(30)
        table.heartbeat(KEY, "first", 1)
        [entry] = table.brokers()
        assert entry.heard_at_ms == begin_ms + 30_000


class TestReplicas:
    def test_a_route_has_the_addresses_of_all_that_carry_the_topic(self, table, registration):
        table.register(registration(port=1, queue_count=4))
        table.register(registration(port=2, broker_id=1, queue_count=8))
        table.register(registration(topics=("other",), port=3, broker_id=2))
        [route] = table.route("orders")
        assert route.addresses == {0: "127.0.0.1:1", 1: "127.0.0.1:2"}
        assert route.write_queue_count == 4
        assert route.permission == READ_WRITE

    def test_without_its_primary_a_broker_is_read_only(self, table, registration):
        table.register(registration(port=1))
        table.register(registration(port=2, broker_id=2, queue_count=8))
        table.register(registration(port=3, broker_id=1, queue_count=6))
        table.unregister(KEY, "first")
        [route] = table.route("orders")
        assert route.addresses == {1: "127.0.0.1:3", 2: "127.0.0.1:2"}
        assert route.read_queue_count == 6
        assert route.permission == Permission.READ


class TestWritePermission:
    @pytest.mark.parametrize(
        ("announced", "left"),
        [
            (READ_WRITE, Permission.READ),
            (Permission.WRITE, Permission.NONE),
            (Permission.READ, Permission.READ),
            (Permission.NONE, Permission.NONE),
        ],
    )
    def test_a_wipe_removes_the_write_permission_alone(self, table, registration, announced, left):
        table.register(registration(permission=announced))
        assert table.route("orders")[0].permission == announced
        table.replace_wiped({"broker-a"})
        assert table.route("orders")[0].permission == left
        table.replace_wiped(())
        assert table.route("orders")[0].permission == announced
        table.register(registration(permission=announced, writable=False))
        assert table.route("orders")[0].permission == left

    def test_a_wipe_outlives_registration_and_restart(self, table, registration):
        table.replace_wiped({"broker-a"})
        table.register(registration())
        table.register(registration(incarnation="second"))
        assert table.route("orders")[0].permission == Permission.READ

    def test_a_wipe_is_of_one_name(self, table, registration):
        table.register(registration("broker-a"))
        table.register(registration("broker-b"))
        table.replace_wiped({"broker-a"})
        assert table.route("orders")[1].permission == READ_WRITE

    def test_how_many_topics_it_is_about(self, table, registration):
        table.register(registration(topics=("a", "b")))
        table.register(registration(topics=("b", "c"), broker_id=1))
        table.register(registration(topics=("d",), broker_id=2, writable=False))
        read_only = registration(topics=("e",), broker_id=3, permission=Permission.READ)
        table.register(read_only)
        assert table.count_writable_topics("broker-a") == 3

    def test_of_an_unknown_broker(self, table, registration):
        error = refused(table.count_writable_topics, "broker-a")
        assert error.row.name == "BROKER_NOT_REGISTERED"
        # A wipe can be undone while its broker is away.
        table.replace_wiped({"broker-a"})
        assert table.count_writable_topics("broker-a") == 0


class TestLists:
    def test_are_sorted_and_by_cluster(self, table, registration):
        table.register(registration("broker-b", ("z", "a")))
        table.register(registration("broker-a", ("m", "z")))
        table.register(registration("broker-a", ("y",), cluster="c0"))
        table.register(registration("broker-a", ("z",), broker_id=1))
        assert table.topics() == ["a", "m", "y", "z"]
        assert table.topics("c0") == ["y"]
        assert table.topics("c9") == []
        keys = [entry.registration.key for entry in table.brokers()]
        assert keys == sorted(keys)
        assert len(keys) == 4
        assert [entry.registration.key.cluster_name for entry in table.brokers("c0")] == ["c0"]

    def test_a_registration_without_topics_is_a_broker_all_the_same(self, table, registration):
        table.register(replace(registration(), topics={}))
        assert len(table.brokers()) == 1
        assert table.topics() == []


class TestPrimariesOfOneSet:
    def test_the_later_epoch_takes_the_place_at_once(self, table, registration):
        table.register(registration(port=1, incarnation="old", epoch=1, replica_addresses={1: "b"}))
        [route] = table.route("orders")
        assert route.addresses == {0: "127.0.0.1:1", 1: "b"}
        table.register(registration(port=2, incarnation="new", epoch=2, replica_addresses={2: "a"}))
        [route] = table.route("orders")
        assert route.addresses == {0: "127.0.0.1:2", 2: "a"}
        assert route.permission == READ_WRITE

    def test_an_earlier_epoch_is_refused_on_any_address(self, table, registration, clock):
        table.register(registration(port=2, incarnation="new", epoch=2))
        for port in (1, 2):
            late = registration(port=port, incarnation="old", epoch=1)
            assert refused(table.register, late).row.name == "BROKER_NAME_TAKEN"
        same = registration(port=1, incarnation="other", epoch=2)
        assert refused(table.register, same).row.name == "BROKER_NAME_TAKEN"
        clock.advance(121)
        table.register(registration(port=1, incarnation="old", epoch=1))
