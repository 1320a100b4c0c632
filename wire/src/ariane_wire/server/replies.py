"""Heads and trailers of responses, as octets."""

from __future__ import annotations

from struct import Struct
from typing import Final

from grpc import StatusCode

from ariane_wire.protocol.compression import ACCEPTED
from ariane_wire.protocol.frames import END_HEADERS, END_STREAM, HEADERS
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


def head_and_prefix(stream_id: int, octets: int, *, compressed: bool = False) -> bytes:
    """The head of a response without metadata, and what comes before its only message.

    Args:
        stream_id: Of the call.
        octets: Of the message.
        compressed: Whether it is.
    """
    return _HEAD.pack(
        _HEAD_WORD,
        END_HEADERS,
        stream_id,
        HEAD_BLOCK,
        octets + 5 << 8,
        0,
        stream_id,
        compressed,
        octets,
    )


def ok_trailers(stream_id: int) -> bytes:
    """The trailers of a call that went well and says no more."""
    return _TRAILERS.pack(_TRAILERS_WORD, END_HEADERS | END_STREAM, stream_id, _OK)


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
