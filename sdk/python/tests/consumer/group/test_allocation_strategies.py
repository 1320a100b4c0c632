"""Every strategy against RocketMQ's own shares, and the algebra of each.

``golden/rocketmq_allocation.json`` was made by the classes of rocketmq-client 5.5.0: queue ``i`` of
topic ``orders`` on broker ``room<1 + i % 3>@broker-a``, member ``i`` called
``room<1 + i % 2>@client-<ii>``, queues and members sorted, queue ids of each member in turn.
"""

import json
from itertools import chain, permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_sdk import (
    Averaging,
    CircularAveraging,
    Configured,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
    MessageQueue,
    Sticky,
    errors,
)
from ariane_sdk.consumer.group.allocation import GroupFacts
from ariane_sdk.consumer.group.sticky import divide

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/rocketmq_allocation.json").read_text())


def room_of(name):
    return name.split("@")[0]


def nearby(within):
    return MachineRoomNearby(
        within, broker_room=lambda queue: room_of(queue.broker_name), member_room=room_of
    )


STRATEGIES = {
    "averaging": Averaging(),
    "circular": CircularAveraging(),
    "consistent-hash-10": ConsistentHash(),
    "consistent-hash-3": ConsistentHash(3),
    "machine-room": MachineRoom(
        {"room1", "room2"}, broker_room=lambda queue: room_of(queue.broker_name)
    ),
    "machine-room-nearby-averaging": nearby(Averaging()),
    "machine-room-nearby-circular": nearby(CircularAveraging()),
}


def group_of(queue_count, member_count):
    queues = [
        MessageQueue("orders", f"room{1 + number % 3}@broker-a", number)
        for number in range(queue_count)
    ]
    members = [f"room{1 + number % 2}@client-{number:02d}" for number in range(member_count)]
    return sorted(queues), sorted(members)


def table_of(strategy, queue_count, member_count):
    queues, members = group_of(queue_count, member_count)
    return [
        [queue.queue_id for queue in strategy.allocate(member, queues, members)]
        for member in members
    ]


@pytest.mark.parametrize("shape", [(5, 2), (6, 3), (10, 20), (20, 6)])
@pytest.mark.parametrize("name", GOLDEN)
def test_shares_are_those_of_rocketmq(name, shape):
    assert table_of(STRATEGIES[name], *shape) == GOLDEN[name]["{} by {}".format(*shape)]


def test_names_say_what_must_agree():
    assert {s.name for s in STRATEGIES.values()} - GOLDEN.keys() == {"machine-room-room1+room2"}
    assert MachineRoom({"b", "a"}).name == MachineRoom(["a", "b"]).name
    assert Sticky.name == "sticky"


@pytest.mark.parametrize(
    "strategy",
    [Averaging(), CircularAveraging(), ConsistentHash(), nearby(Averaging()), Sticky()],
    ids=lambda strategy: strategy.name,
)
@given(queue_count=st.integers(0, 60), member_count=st.integers(1, 20))
def test_each_queue_is_owned_once(strategy, queue_count, member_count):
    table = table_of(strategy, queue_count, member_count)

    assert sorted(chain.from_iterable(table)) == list(range(queue_count))


@pytest.mark.parametrize(
    "strategy",
    [Averaging(), CircularAveraging(), Sticky()],
    ids=lambda strategy: strategy.name,
)
@given(queue_count=st.integers(0, 60), member_count=st.integers(1, 20))
def test_sizes_differ_by_at_most_one(strategy, queue_count, member_count):
    sizes = list(map(len, table_of(strategy, queue_count, member_count)))

    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 40), st.integers(2, 12), st.data())
def test_a_hash_ring_moves_only_the_queues_of_who_left(queue_count, member_count, data):
    queues, members = group_of(queue_count, member_count)
    gone = data.draw(st.sampled_from(members))
    stayed = [member for member in members if member != gone]
    strategy = ConsistentHash()

    for member in stayed:
        before = set(strategy.allocate(member, queues, members))
        after = set(strategy.allocate(member, queues, stayed))
        assert before <= after


@given(st.integers(0, 8), st.integers(1, 4), st.data())
def test_sticky_moves_as_few_as_possible(queue_count, member_count, data):
    queues, members = group_of(queue_count, member_count)
    owner = st.sampled_from([*members, "gone"])
    owners = data.draw(st.dictionaries(st.sampled_from(queues), owner)) if queues else {}

    held = divide(queues, members, owners)

    share, larger = divmod(queue_count, member_count)
    counts = [sum(owner == member for owner in owners.values()) for member in members]
    sizes = [share + 1] * larger + [share] * (member_count - larger)
    kept_most = max(sum(map(min, counts, arrangement)) for arrangement in set(permutations(sizes)))
    kept = sum(owners.get(queue) == member for member in members for queue in held[member])
    assert kept == kept_most
    assert sorted(chain.from_iterable(held.values())) == queues
    assert sorted(map(len, held.values()), reverse=True) == sizes


@given(st.integers(0, 30), st.integers(1, 8))
def test_sticky_comes_to_rest(queue_count, member_count):
    queues, members = group_of(queue_count, member_count)
    held = divide(queues, members, {})
    owners = {queue: member for member, own in held.items() for queue in own}

    assert divide(queues, members, owners) == held


def test_rooms_may_come_from_zones():
    queues = [MessageQueue("orders", broker, n) for broker in ("a", "b") for n in range(2)]
    facts = GroupFacts(
        queues=queues,
        client_ids=["far", "near"],
        broker_zones={"a": "north", "b": "south"},
        member_zones={"near": "north", "far": "south"},
    )

    assert MachineRoomNearby().allocate_among("near", facts) == queues[:2]
    assert MachineRoomNearby().allocate_among("far", facts) == queues[2:]


def test_configured_queues_are_had_where_the_topic_has_them():
    queues, members = group_of(6, 3)
    strategy = Configured([queues[4], MessageQueue("orders", "elsewhere", 0)])

    assert strategy.allocate(members[0], queues, members) == [queues[4]]


@pytest.mark.parametrize("strategy", [*STRATEGIES.values(), Sticky()], ids=lambda s: s.name)
def test_a_client_that_is_no_member_gets_no_queue(strategy):
    assert not strategy.allocate("room1@stranger", *group_of(4, 2))


def test_nonsense_is_refused():
    with pytest.raises(errors.IllegalArgument):
        ConsistentHash(0)
    with pytest.raises(errors.IllegalArgument):
        MachineRoom([])
    with pytest.raises(errors.IllegalArgument):
        MachineRoom("room1")


def test_rooms_are_zones_and_all_queues_are_taken_where_a_room_is_empty():
    queues = [MessageQueue("orders", f"broker-{name}", 0) for name in "abc"]
    zones = {"broker-a": "north", "broker-b": "south"}
    facts = GroupFacts(queues=queues, client_ids=["one", "two"], broker_zones=zones)
    shares = {
        room: [list(MachineRoom([room]).allocate_among(each, facts)) for each in ("one", "two")]
        for room in ("north", "south", "west")
    }
    assert shares == {
        "north": [queues[:1], []],
        "south": [queues[1:2], []],
        "west": [[queues[0], queues[2]], [queues[1]]],
    }


def test_a_room_whose_broker_is_away_is_waited_for_and_no_other_taken():
    queues = [MessageQueue("orders", "broker-b", number) for number in range(2)]

    def share(room, away_zones, **how):
        facts = GroupFacts(
            queues=queues,
            client_ids=["one"],
            broker_zones={"broker-b": "south"},
            away_zones=away_zones,
        )
        return list(MachineRoom([room], **how).allocate_among("one", facts))

    assert share("north", {"broker-a": "north"}) == []
    assert share("north", {"broker-a": "west", "broker-c": ""}) == queues
    assert share("south", {"broker-a": "north"}) == queues
    by_name = {"broker_room": lambda queue: queue.broker_name[-1]}
    assert share("a", {"broker-a": ""}, **by_name) == []
    assert share("c", {"broker-a": ""}, **by_name) == queues


def test_nearby_rooms_divide_stickily_where_that_is_asked_for():
    queues = [
        MessageQueue("t", broker, number) for broker in ("b-east", "b-lost") for number in range(4)
    ]
    east, lost = queues[:4], queues[4:]
    strategy = MachineRoomNearby(Sticky())
    assert strategy.needs_owners
    assert not MachineRoomNearby().needs_owners

    def shares(members, owners):
        facts = GroupFacts(
            queues=queues,
            client_ids=sorted(members),
            broker_zones={"b-east": "east", "b-lost": "lost"},
            member_zones=members,
            owners=owners,
        )
        return {member: set(strategy.allocate_among(member, facts)) for member in members}

    # b has what averaging would give to a, in its own room and in the one without members.
    owned = dict.fromkeys((*east[:2], *lost[:2]), "b")
    owned |= dict.fromkeys((*east[2:], *lost[2:]), "a")
    rooms = {"a": "east", "b": "east"}
    assert shares(rooms, owned) == {"a": {*east[2:], *lost[2:]}, "b": {*east[:2], *lost[:2]}}
    # One that joins takes no more than its share; nothing else changes hands.
    three = shares(rooms | {"c": "east"}, owned)
    assert three["a"] <= {*east[2:], *lost[2:]}
    assert three["b"] <= {*east[:2], *lost[:2]}
    assert set().union(*three.values()) == set(queues)
