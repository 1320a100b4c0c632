from __future__ import annotations

import pytest

from ariane_wire.protocol.header_blocks import has_too_many_updates

FIELDS = b"\x83\x86"


@pytest.mark.parametrize(
    "updates", [b"", b"\x20", b"\x20\x3e", b"\x20\x3f\xe1\x1f", b"\x3f\x00" * 2]
)
def test_up_to_two_changes_may_begin_a_block(updates):
    assert not has_too_many_updates(updates)
    assert not has_too_many_updates(updates + FIELDS)


@pytest.mark.parametrize("updates", [b"\x20" * 3, b"\x3f\xe1\x1f" * 3, b"\x20\x3f\x80\x01\x20"])
def test_three_are_too_many(updates):
    assert has_too_many_updates(updates)
    assert has_too_many_updates(updates + FIELDS)


def test_only_the_beginning_counts():
    assert not has_too_many_updates(FIELDS + b"\x20" * 9)
