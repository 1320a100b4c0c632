"""What a primary and a replica tell collectors of metrics about their set."""

from __future__ import annotations

from itertools import chain

import pytest

from ariane_broker.replication.copies import Copy
from ariane_broker.replication.operating import SetStatus
from ariane_broker.replication.replica_set import ReplicaSet
from ariane_broker.replication.replication_measures import ReplicationMeasures
from ariane_storage import Store
from ariane_storage.testing import block_of, small_config

SET = {"cluster.name": "c", "broker.name": "broker-a"}


class Noting:
    def __init__(self):
        self.reads = {}

    def gauge(self, name, unit, description, read):
        self.reads[name.removeprefix("ariane.replication.")] = read


@pytest.mark.parametrize("is_primary", [False, True])
def test_role_epoch_members_and_lag_are_told(tmp_path, is_primary):
    row = ReplicaSet(epoch=7, primary_id=0, in_sync=frozenset({0, 1}), addresses={0: "a", 2: "c"})
    with Store.open(tmp_path, small_config()) as store:
        store.append(block_of("orders", [b"1"]), 0)
        copies = [Copy(2, written=store.max_offset - 10)] if is_primary else []
        trouble = "" if is_primary else "the primary is silent"
        status = SetStatus(0, row, copies, has_lease=is_primary, now_s=0.0, trouble=trouble)
        noting = Noting()
        ReplicationMeasures(("c", "broker-a"), lambda: status, store).make(noting)
        values = {name: list(read()) for name, read in noting.reads.items()}
    assert [values[name][0][0] for name in ("primary", "epoch", "in_sync", "brokers")] == [
        int(is_primary),
        7,
        2,
        2,
    ]
    assert all(set(SET.items()) <= set(own.items()) for _, own in chain(*values.values()))
    assert values["following"][0][0] == int(is_primary)
    assert values["missing"][0][0] == 0
    assert values["behind"] == ([(10, {**SET, "broker.id": "2"})] if is_primary else [])
