"""The route table against a model that remembers everything and computes routes from scratch."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ariane_namesrv.registration import BrokerKey, Permission, Registration, TopicLayout
from ariane_namesrv.route_table import RouteTable
from ariane_servicekit import ServiceError
from ariane_testkit.virtual_clock import VirtualClock

TOPICS = ("t0", "t1", "t2")
KEYS = st.builds(
    BrokerKey,
    st.sampled_from(["c0", "c1"]),
    st.sampled_from(["a", "b"]),
    st.integers(0, 2),
)
INCARNATIONS = st.sampled_from(["i0", "i1", "i2"])
VERSIONS = st.integers(0, 3)
LAYOUTS = st.builds(
    TopicLayout,
    st.integers(0, 8),
    st.integers(0, 8),
    st.sampled_from([Permission.NONE, Permission.READ, Permission.WRITE, Permission(6)]),
)
REGISTRATIONS = st.builds(
    Registration,
    key=KEYS,
    address=st.sampled_from(["h:1", "h:2"]),
    incarnation=INCARNATIONS,
    topics=st.dictionaries(st.sampled_from(TOPICS), LAYOUTS),
    topics_version=VERSIONS,
    silence_s_max=st.sampled_from([30.0, 120.0]),
    writable=st.booleans(),
)


@dataclass
class Known:
    registration: Registration
    heard_s: float


class RouteTableMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.clock = VirtualClock()
        self.table = RouteTable(self.clock)
        self.known: dict[BrokerKey, Known] = {}
        self.wiped: set[str] = set()

    def _silent(self, known: Known) -> bool:
        return self.clock.monotonic() > known.heard_s + known.registration.silence_s_max

    @rule(registration=REGISTRATIONS)
    def register(self, registration):
        known = self.known.get(registration.key)
        now_s = self.clock.monotonic()
        same = known is not None and known.registration.incarnation == registration.incarnation
        moved = known is not None and known.registration.address != registration.address
        if moved and not same and not self._silent(known):
            with pytest.raises(ServiceError) as caught:
                self.table.register(registration)
            assert caught.value.row.name == "BROKER_NAME_TAKEN"
            return
        self.table.register(registration)
        if same and registration.topics_version < known.registration.topics_version:
            known.heard_s = now_s
        else:
            taken = [
                key
                for key, other in self.known.items()
                if other.registration.address == registration.address
                and key[:2] != registration.key[:2]
            ]
            for key in taken:
                del self.known[key]
            self.known[registration.key] = Known(registration, now_s)

    @rule(key=KEYS, incarnation=INCARNATIONS, version=VERSIONS)
    def heartbeat(self, key, incarnation, version):
        known = self.known.get(key)
        fits = known is not None and (incarnation, version) == (
            known.registration.incarnation,
            known.registration.topics_version,
        )
        if not fits:
            with pytest.raises(ServiceError) as caught:
                self.table.heartbeat(key, incarnation, version)
            assert caught.value.row.name == "BROKER_NOT_REGISTERED"
            return
        self.table.heartbeat(key, incarnation, version)
        known.heard_s = self.clock.monotonic()

    @rule(key=KEYS, incarnation=INCARNATIONS)
    def unregister(self, key, incarnation):
        known = self.known.get(key)
        fits = known is not None and known.registration.incarnation == incarnation
        assert self.table.unregister(key, incarnation) == fits
        if fits:
            del self.known[key]

    @rule(seconds=st.sampled_from([0.5, 20, 30, 60, 121]))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @rule()
    def scan(self):
        silent = {key for key, known in self.known.items() if self._silent(known)}
        assert set(self.table.expire()) == silent
        for key in silent:
            del self.known[key]

    @rule(names=st.sets(st.sampled_from(["a", "b", "gone"])))
    def wipe(self, names):
        self.table.replace_wiped(names)
        self.wiped = names

    @invariant()
    def lists_are_those_of_the_model(self):
        assert [entry.registration for entry in self.table.brokers()] == [
            self.known[key].registration for key in sorted(self.known)
        ]
        registrations = [known.registration for known in self.known.values()]
        assert self.table.topics() == sorted(
            {topic for one in registrations for topic in one.topics}
        )
        assert self.table.topics("c0") == sorted(
            {topic for one in registrations if one.key.cluster_name == "c0" for topic in one.topics}
        )

    @invariant()
    def routes_are_those_of_the_model(self):
        for topic in TOPICS:
            carriers = [
                self.known[key].registration
                for key in sorted(self.known)
                if topic in self.known[key].registration.topics
            ]
            routes = self.table.route(topic)
            names = [(route.cluster_name, route.broker_name) for route in routes]
            assert names == sorted({one.key[:2] for one in carriers})
            for route, name in zip(routes, names, strict=True):
                group = [one for one in carriers if one.key[:2] == name]
                self._check_route(route, topic, group)

    def _check_route(self, route, topic, group):
        leader = group[0]
        layout = leader.topics[topic]
        assert route.addresses == {one.key.broker_id: one.address for one in group}
        assert route.read_queue_count == layout.read_queue_count
        assert route.write_queue_count == layout.write_queue_count
        may_write = (
            leader.key.broker_id == 0
            and leader.writable
            and leader.key.broker_name not in self.wiped
            and Permission.WRITE in layout.permission
        )
        assert (Permission.WRITE in route.permission) == may_write
        assert (Permission.READ in route.permission) == (Permission.READ in layout.permission)


RouteTableMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestRouteTableModel = RouteTableMachine.TestCase
