"""Handles: what settles a message that a client has, as text.

A handle carries the broker's name and never an address: whoever makes one up reaches no process
that is not in the routes. The receipt inside is signed by the broker, for this group, message and
attempt::

    uint8 version   int64 queue offset   uint8 bytes of the broker's name
    the broker's name   the receipt
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Final, NamedTuple

from ariane_gateway.refusal_kinds import Refusal
from ariane_gateway.refusals import Refused

_HEAD: Final = struct.Struct("<BqB")
_VERSION: Final = 1
HANDLE_CHARACTERS_MAX: Final = 2048


class Handle(NamedTuple):
    """The contents of a handle."""

    broker_name: str
    """The broker that handed the message out."""
    queue_offset: int
    """The message's place in its queue."""
    receipt: bytes
    """The broker's receipt."""

    def encode(self) -> str:
        """The handle as text."""
        name = self.broker_name.encode()
        head = _HEAD.pack(_VERSION, self.queue_offset, len(name))
        return base64.urlsafe_b64encode(head + name + self.receipt).decode()


def decode_handle(text: str) -> Handle:
    """Decode a handle.

    Raises:
        Refused: ``RECEIPT_INVALID``.
    """
    try:
        octets = base64.b64decode(text[:HANDLE_CHARACTERS_MAX], altchars=b"-_", validate=True)
        version, queue_offset, name_bytes = _HEAD.unpack_from(octets)
        name = octets[_HEAD.size : _HEAD.size + name_bytes].decode()
    except (binascii.Error, ValueError, struct.error):
        raise _invalid(text) from None
    receipt = octets[_HEAD.size + name_bytes :]
    if version != _VERSION or not name or not receipt or queue_offset < 0:
        raise _invalid(text)
    return Handle(name, queue_offset, receipt)


def _invalid(text: str) -> Refused:
    return Refused(Refusal.RECEIPT_INVALID, f"receipt handle {text!r:.80} is none of this cluster")
