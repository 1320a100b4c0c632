"""Receipts: the handles by which a client settles messages that it received.

Opaque, and signed, so that a client cannot make up a receipt for messages of another client::

    uint8 version   int32 queue_id   int64 serial   int64 queue offset, -1: all of the serial
    topic   16 bytes of BLAKE2s, keyed, over the group, 0x00 and all before

BLAKE2s (RFC 7693) with a key is a MAC by itself, and costs a quarter of HMAC-SHA256. Receipts of
version 1 bear the latter, so that their MAC is wrong here: the version refuses none by itself.

Each answer has its own serial, which names this attempt of the messages in it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import struct
from typing import Final, NamedTuple

from ariane_broker.errors.receiving import receipt_invalid
from ariane_broker.queue_key import QueueKey

SECRET_BYTES: Final = 32
WHOLE: Final = -1
"""In the place of a queue offset: all messages of the serial."""

_HEAD: Final = struct.Struct("<Biqq")
_VERSION: Final = 2
_MAC_BYTES: Final = 16


class Receipt(NamedTuple):
    """The contents of a receipt."""

    queue: QueueKey
    """The messages' queue."""
    serial: int
    """The serial of the answer that had them."""
    queue_offset: int = WHOLE
    """One message of the answer; ``WHOLE`` for all."""


def encode_receipt(receipt: Receipt, group: str, secret: bytes) -> bytes:
    """Encode a receipt for a client of a group."""
    head = _HEAD.pack(_VERSION, receipt.queue.queue_id, receipt.serial, receipt.queue_offset)
    content = head + receipt.queue.topic.encode()
    return content + _mac(content, group, secret)


def decode_receipt(octets: bytes, group: str, secret: bytes) -> Receipt:
    """Decode the receipt of packed records.

    Raises:
        ServiceError: RECEIPT_HANDLE_INVALID, also for the handle of one message.
    """
    receipt = _decoded(octets, group, secret)
    if receipt.queue_offset != WHOLE:
        raise receipt_invalid(octets.hex())
    return receipt


def _decoded(octets: bytes, group: str, secret: bytes) -> Receipt:
    content, mac = octets[:-_MAC_BYTES], octets[-_MAC_BYTES:]
    # Without a secret no message was ever handed out.
    if (
        not secret
        or len(content) <= _HEAD.size
        or not hmac.compare_digest(mac, _mac(content, group, secret))
    ):
        raise receipt_invalid(octets.hex())
    _, queue_id, serial, queue_offset = _HEAD.unpack_from(content)
    return Receipt(QueueKey(content[_HEAD.size :].decode(), queue_id), serial, queue_offset)


def encode_handle(receipt: Receipt, group: str, secret: bytes) -> str:
    """Encode the receipt of one message, as text."""
    return base64.urlsafe_b64encode(encode_receipt(receipt, group, secret)).decode()


def decode_handle(handle: str, group: str, secret: bytes) -> Receipt:
    """Decode the handle of one message.

    Raises:
        ServiceError: RECEIPT_HANDLE_INVALID, also for the receipt of packed records.
    """
    try:
        octets = base64.b64decode(handle, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise receipt_invalid(handle) from None
    receipt = _decoded(octets, group, secret)
    if receipt.queue_offset == WHOLE:
        raise receipt_invalid(handle)
    return receipt


def _mac(content: bytes, group: str, secret: bytes) -> bytes:
    signed = group.encode() + b"\0" + content
    return hashlib.blake2s(signed, key=secret, digest_size=_MAC_BYTES).digest()
