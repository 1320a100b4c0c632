"""Tables between the codes of gRPC, HTTP and HTTP/2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from grpc import StatusCode

from ariane_wire.protocol.frames import ErrorCode

CODES: Final[Mapping[int, StatusCode]] = {code.value[0]: code for code in StatusCode}

# https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md
_OF_HTTP: Final[Mapping[int, StatusCode]] = {
    400: StatusCode.INTERNAL,
    401: StatusCode.UNAUTHENTICATED,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.UNIMPLEMENTED,
    429: StatusCode.UNAVAILABLE,
    502: StatusCode.UNAVAILABLE,
    503: StatusCode.UNAVAILABLE,
    504: StatusCode.UNAVAILABLE,
}

# https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, "Errors"
_OF_RESET: Final[Mapping[int, StatusCode]] = {
    ErrorCode.REFUSED_STREAM: StatusCode.UNAVAILABLE,
    ErrorCode.CANCEL: StatusCode.CANCELLED,
    ErrorCode.ENHANCE_YOUR_CALM: StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: StatusCode.PERMISSION_DENIED,
}


def status_of(code: object) -> StatusCode:
    """The code that a handler means: one of grpcio's, or its number; UNKNOWN for all else."""
    if isinstance(code, StatusCode):
        return code
    return CODES.get(code, StatusCode.UNKNOWN) if isinstance(code, int) else StatusCode.UNKNOWN


def status_of_number(number: int) -> StatusCode:
    """The code of a ``grpc-status`` field; UNKNOWN for numbers of later versions."""
    return CODES.get(number, StatusCode.UNKNOWN)


def status_of_http(http_status: int) -> StatusCode:
    """The code of an answer that is not gRPC's."""
    return _OF_HTTP.get(http_status, StatusCode.UNKNOWN)


def status_of_reset(code: int) -> StatusCode:
    """The code of a stream that the peer has reset."""
    return _OF_RESET.get(code, StatusCode.INTERNAL)
