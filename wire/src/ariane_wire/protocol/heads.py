"""What the header blocks of calls say: heads of requests, and heads and trailers of responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

from ariane_wire.protocol.block_patterns import Fields
from ariane_wire.protocol.faults import StreamFault
from ariane_wire.protocol.frames import ErrorCode
from ariane_wire.protocol.metadata import Pairs, decode_pair, text, unescape_message
from ariane_wire.protocol.timeouts import parse_timeout

CONTENT_TYPE: Final = b"application/grpc"

_HIDDEN: Final = frozenset(
    {b"te", b"content-type", b"content-length", b"grpc-timeout", b"grpc-encoding"}
    | {b"grpc-accept-encoding", b"grpc-status", b"grpc-message"}
)
"""Fields of the protocol, which are no metadata."""

_FORBIDDEN: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
_NAME_CHARS: Final = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
VALUE_CHARS_BAD: Final = frozenset(b"\0\r\n")
_REQUEST_NAMES: Final = frozenset({b":method", b":scheme", b":path", b":authority"})


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What a client asks for."""

    method: str = ""
    """As "/package.Service/Method"."""
    authority: str = ""
    metadata: Pairs = ()
    """Fields that are not the protocol's."""
    timeout_s: float | None = None
    """How long the client waits, if it says so."""
    encoding: str = "identity"
    """How compressed messages of the request are compressed."""
    accepted: frozenset[str] = frozenset({"identity"})
    """Encodings that the client takes."""
    content_length: int | None = None
    """Octets that DATA frames will have, if the client says so."""
    http_status: int = 200
    """Not 200 where this is no request of gRPC: what HTTP answers then."""
    fault: str = ""
    """Why the request is refused whatever it asks for, or empty."""
    limit_octets: int | None = None
    """Where its metadata is too long, how long it may be; else None."""
    is_trailers: bool = False
    """Whether there are no pseudo-fields: more metadata after the request's messages."""

    @property
    def is_uncommon(self) -> bool:
        """Whether this is no plain call of gRPC."""
        return self.http_status != 200 or bool(self.fault) or self.content_length is not None


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What a server answers before or after its messages."""

    http_status: int | None
    """None in trailers."""
    status: int | None
    """The number of ``grpc-status``, if there is one: then the call is over."""
    message: str
    """The text of the status."""
    metadata: Pairs
    encoding: str
    is_grpc: bool
    """Whether the content type is gRPC's."""
    fault: str = ""


def parse_request(fields: Fields) -> RequestHead:
    """The head of a request.

    Raises:
        StreamFault: The fields break a rule of HTTP/2; of stream 0, because a block does not know.
    """
    pseudo = _checked(fields, _REQUEST_NAMES)
    if not pseudo:
        return RequestHead(is_trailers=True, metadata=_metadata(fields)[0])
    method, path = pseudo.get(b":method"), pseudo.get(b":path")
    if method is None or path is None or b":scheme" not in pseudo or not path:
        _malformed("the request has no :method, :scheme or :path")
    metadata, fault = _metadata(fields)
    by_name = dict(fields)
    timeout_s = None
    if b"grpc-timeout" in by_name:
        try:
            timeout_s = parse_timeout(by_name[b"grpc-timeout"])
        except ValueError as error:
            fault = str(error)
    http_status = 200
    if method != b"POST":
        http_status = 405
    elif not _is_grpc(by_name.get(b"content-type", b"")):
        http_status = 415
    return RequestHead(
        method=text(path),
        authority=text(pseudo.get(b":authority", by_name.get(b"host", b""))),
        metadata=metadata,
        timeout_s=timeout_s,
        encoding=text(by_name.get(b"grpc-encoding", b"identity")),
        accepted=frozenset(
            part.strip()
            for part in text(by_name.get(b"grpc-accept-encoding", b"identity")).split(",")
        ),
        content_length=_content_length(fields),
        http_status=http_status,
        fault=fault,
    )


def parse_response(fields: Fields) -> ResponseHead:
    """The head or the trailers of a response.

    Raises:
        StreamFault: As for requests.
    """
    pseudo = _checked(fields, frozenset({b":status"}))
    http_status = pseudo.get(b":status")
    if http_status is not None and not (len(http_status) == 3 and http_status.isdigit()):
        _malformed(f"the status {http_status[:20]!r}")
    metadata, fault = _metadata(fields)
    by_name = dict(fields)
    status = by_name.get(b"grpc-status")
    if status is not None and not (status.isdigit() and len(status) < 10):
        status, fault = b"2", f"the server's grpc-status is {status[:20]!r}"
    return ResponseHead(
        http_status=None if http_status is None else int(http_status),
        status=None if status is None else int(status),
        message=unescape_message(by_name.get(b"grpc-message", b"")),
        metadata=metadata,
        encoding=text(by_name.get(b"grpc-encoding", b"identity")),
        is_grpc=_is_grpc(by_name.get(b"content-type", b"")),
        fault=fault,
    )


def hides(name: bytes) -> bool:
    """Whether a field is the protocol's, and no metadata."""
    return name in _HIDDEN or name[:1] == b":"


def _is_grpc(content_type: bytes) -> bool:
    return content_type.startswith(CONTENT_TYPE) and content_type[16:17] in {b"", b"+", b";"}


def _checked(fields: Fields, known: frozenset[bytes]) -> dict[bytes, bytes]:
    """The pseudo-fields of a block that keeps to the rules of RFC 9113, sections 8.2 and 8.3."""
    pseudo: dict[bytes, bytes] = {}
    regular = False
    for name, value in fields:
        if name[:1] == b":":
            if regular or name in pseudo or name not in known:
                _malformed(f"the pseudo-field {name[:40]!r}")
            pseudo[name] = value
        else:
            regular = True
            if not name or not _NAME_CHARS.issuperset(name):
                _malformed(f"the field name {name[:40]!r}")
            if name in _FORBIDDEN or (name == b"te" and value != b"trailers"):
                _malformed(f"the field {name.decode()}, which belongs to HTTP/1")
        if not VALUE_CHARS_BAD.isdisjoint(value):
            _malformed(f"the value of {name[:40]!r}")
    return pseudo


def _metadata(fields: Fields) -> tuple[Pairs, str]:
    """Fields that are not the protocol's, and why one of them is none."""
    pairs: list[tuple[str, str | bytes]] = []
    for name, value in fields:
        if hides(name):
            continue
        try:
            pairs += decode_pair(name, value)
        except ValueError as error:
            return tuple(pairs), str(error)
    return tuple(pairs), ""


def _content_length(fields: Fields) -> int | None:
    lengths = {value for name, value in fields if name == b"content-length"}
    if not lengths:
        return None
    length = lengths.pop()
    if lengths or not length.isdigit() or len(length) > 18:
        _malformed("the content length")
    return int(length)


def _malformed(what: str) -> NoReturn:
    raise StreamFault(0, ErrorCode.PROTOCOL_ERROR, f"malformed: {what}")
