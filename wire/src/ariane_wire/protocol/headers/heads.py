"""What the header blocks of calls say: heads of requests, and heads and trailers of responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from ariane_wire.protocol.faults import StreamFault
from ariane_wire.protocol.frames import ErrorCode
from ariane_wire.protocol.headers.block_patterns import Fields
from ariane_wire.protocol.headers.header_fields import parse_timeout
from ariane_wire.protocol.headers.metadata import Pairs, decode_pair, text, unescape_message

TIMEOUT = b"grpc-timeout"

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


class RequestForm:
    """Makes the heads of requests that differ in some metadata and the time that is left.

    A ``Form`` of header blocks (see ``block_patterns``).
    """

    __slots__ = ("_head", "_metadata", "_places", "repeats")

    def __init__(self, head: RequestHead, places: Sequence[int | None]) -> None:
        """Take a head as the pattern.

        Args:
            head: The head of one such request.
            places: The place in its metadata of each value that differs; None for the time that is
                left.
        """
        self._head = head
        self._metadata = list(head.metadata)
        self._places = places
        self.repeats = all(place is None for place in places)
        """Times are rounded by clients that wish to repeat themselves."""

    def head(self, values: Sequence[bytes]) -> RequestHead | None:
        """The head with these values; None where one needs a closer look."""
        alike = self._head
        timeout_s = alike.timeout_s
        metadata = self._metadata.copy()
        for place, value in zip(self._places, values, strict=True):
            if place is None:
                try:
                    timeout_s = parse_timeout(value)
                except ValueError:
                    return None
            elif VALUE_CHARS_BAD.isdisjoint(value):
                metadata[place] = metadata[place][0], text(value)
            else:
                return None
        return RequestHead(
            alike.method,
            alike.authority,
            tuple(metadata),
            timeout_s,
            alike.encoding,
            alike.accepted,
        )


def request_form(head: RequestHead, fields: Fields, varied: Sequence[int]) -> RequestForm | None:
    """What a head has alike with others whose numbered fields differ; None: it is not known.

    Args:
        head: A head.
        fields: Its fields.
        varied: Numbers of fields, in order.
    """
    if head.is_uncommon or head.is_trailers or head.limit_octets is not None:
        return None
    names = [name for name, _ in fields]
    if names.count(TIMEOUT) > 1 or b":authority" not in names:
        return None
    # One field of that kind may be several pairs.
    if any(name.endswith(b"-bin") for name in names):
        return None
    shown = [at for at, name in enumerate(names) if not hides(name)]
    numbers: dict[int, int | None] = {at: place for place, at in enumerate(shown)}
    if TIMEOUT in names:
        numbers[names.index(TIMEOUT)] = None
    if not numbers.keys() >= set(varied) or len(shown) != len(head.metadata):
        return None
    return RequestForm(head, [numbers[at] for at in varied])
