"""Blocks side by side: which bytes are whose."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ariane_storage.testing import block_of, joined_table

BLOCKS = [block_of("a", [b"x", b"y" * 90]), block_of("b", [b"z" * 7]), block_of("c", [b"q"] * 3)]
TABLE = joined_table(BLOCKS, [0, 1, 2], [None] * 3)


@pytest.mark.parametrize("chosen", [[], [0], [1], [2], [0, 2], [2, 0], [0, 1, 2]])
def test_the_records_of_some_blocks_are_theirs_in_the_order_asked_for(chosen):
    assert TABLE.records_of(chosen) == b"".join(bytes(BLOCKS[one].records) for one in chosen)


def test_edges_and_sizes_are_by_block():
    assert len(TABLE) == 3
    assert TABLE.edges.tolist() == [0, 2, 3, 6]
    assert TABLE.block_sizes == [len(block.records) for block in BLOCKS]


@pytest.mark.parametrize("wrong", [b"", bytes(TABLE.records)[:-1], bytes(TABLE.records) + b"x"])
def test_records_of_another_length_than_their_sizes_are_not_whole(wrong):
    assert TABLE.are_sizes_whole
    assert not replace(TABLE, records=wrong).are_sizes_whole
