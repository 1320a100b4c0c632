"""What closed channels did: all of it is counted, in bounded memory."""

from dataclasses import fields

from ariane_sdk.net.ended_channels import ADDRESSES_MAX, OTHERS, EndedChannels
from ariane_wire import Statistics

ONE = Statistics(**{field.name: 1 for field in fields(Statistics)})


def test_whatever_addresses_come_and_go_so_many_are_remembered_and_nothing_is_lost():
    ended = EndedChannels()
    for number in range(3 * ADDRESSES_MAX):
        ended.add(f"10.0.0.1:{number}", ONE)
        ended.add("10.0.0.2:1", ONE)
    found = ended.by_address()
    assert len(found) == ADDRESSES_MAX
    assert found["10.0.0.2:1"].streams_begun == 3 * ADDRESSES_MAX
    assert found[f"10.0.0.1:{3 * ADDRESSES_MAX - 1}"].streams_begun == 1
    assert found[OTHERS].streams_begun == 2 * ADDRESSES_MAX + 2
    assert sum(each.streams_begun for each in found.values()) == 6 * ADDRESSES_MAX
    assert all(each.connections == each.streams == 0 for each in found.values())
