"""Heads and trailers of responses, as octets."""

from __future__ import annotations

from struct import Struct
from typing import Final

from grpc import StatusCode

from ariane_wire.protocol.compression import ACCEPTED
from ariane_wire.protocol.frames import END_HEADERS, END_STREAM, HEADERS, PREFIX_OCTETS
from ariane_wire.protocol.headers import header_fields
from ariane_wire.protocol.headers.header_fields import STATUS_200, literal
from ariane_wire.protocol.headers.metadata import Pairs, encode_metadata, escape_message

_CONTENT_TYPE: Final = literal(b"content-type", b"application/grpc")
HEAD_BLOCK: Final = STATUS_200 + _CONTENT_TYPE + literal(b"grpc-accept-encoding", ACCEPTED.encode())
_OK: Final = literal(b"grpc-status", b"0")

_HEAD: Final = Struct(f">IBI{len(HEAD_BLOCK)}sIBIBI")
_TRAILERS: Final = Struct(f">IBI{len(_OK)}s")
_HEAD_WORD: Final = len(HEAD_BLOCK) << 8 | HEADERS
_TRAILERS_WORD: Final = len(_OK) << 8 | HEADERS

_JOINED_MAX: Final = 1 << 10
"""Up to here, to join an answer at once is less than to handle its parts."""


def whole(stream_id: int, message: bytes) -> tuple[bytes, ...]:
    """The whole answer of a call that went well: its only message, and no metadata."""
    octets = len(message)
    data_word = octets + PREFIX_OCTETS << 8
    head = _HEAD.pack(
        _HEAD_WORD, END_HEADERS, stream_id, HEAD_BLOCK, data_word, 0, stream_id, 0, octets
    )
    trailers = _TRAILERS.pack(_TRAILERS_WORD, END_HEADERS | END_STREAM, stream_id, _OK)
    if octets <= _JOINED_MAX:
        return (b"".join((head, message, trailers)),)
    return head, message, trailers


def head_block(metadata: Pairs, encoding: str) -> bytes:
    """The head of a response.

    Raises:
        ValueError: Metadata cannot be sent.
    """
    block = HEAD_BLOCK
    if encoding != "identity":
        block += literal(b"grpc-encoding", encoding.encode())
    return block + encode_metadata(metadata) if metadata else block


def trailers_block(code: StatusCode, details: str, metadata: Pairs) -> bytes:
    """The trailers of a response.

    Raises:
        ValueError: Metadata cannot be sent.
    """
    number: int = code.value[0]
    block = literal(b"grpc-status", b"%d" % number)
    if details:
        block += literal(b"grpc-message", escape_message(details))
    return block + encode_metadata(metadata) if metadata else block


def trailers_only(trailers: bytes) -> bytes:
    """Trailers as the only block of a response."""
    return STATUS_200 + _CONTENT_TYPE + trailers


def http_head(status: int, octets: int) -> bytes:
    """The head of the answer to a request that is not gRPC's, and of its text."""
    length = literal(b"content-length", b"%d" % octets)
    return header_fields.http_status(status) + literal(b"content-type", b"text/plain") + length
