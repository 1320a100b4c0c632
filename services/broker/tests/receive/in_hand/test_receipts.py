"""Receipts of other versions."""

import hmac
import struct

import pytest

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.in_hand.receipts import Receipt, decode_receipt, encode_receipt
from ariane_servicekit import ServiceError

SECRET = bytes(range(32))
RECEIPT = Receipt(QueueKey("orders", 3), 7)


def test_a_receipt_of_version_1_is_refused_clearly():
    content = struct.pack("<Biqq", 1, 3, 7, -1) + b"orders"
    signature = hmac.digest(SECRET, b"workers\0" + content, "sha256")[:16]

    with pytest.raises(ServiceError) as refusal:
        decode_receipt(content + signature, "workers", SECRET)
    assert refusal.value.reason == ErrorReason.ERROR_REASON_RECEIPT_HANDLE_INVALID
    present = encode_receipt(RECEIPT, "workers", SECRET)
    assert (present[0], present[1 : len(content)]) == (2, content[1:])
    assert decode_receipt(present, "workers", SECRET) == RECEIPT
