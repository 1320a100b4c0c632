"""Frames in the log: one line each, for both directions of a connection."""

from __future__ import annotations

import logging
import os
from typing import Final

from ariane_wire.protocol.frames import (
    GOAWAY,
    HEAD,
    HEAD_OCTETS,
    KIND_NAMES,
    PREFACE,
    RST_STREAM,
    error_name,
)

LOGGER: Final = "ariane_wire.frames"
_log: Final = logging.getLogger(LOGGER)

ENVIRONMENT: Final = "ARIANE_WIRE_TRACE"
"""The variable by which a whole process traces: anything but nothing and 0."""


def is_traced(*, by_option: bool) -> bool:
    """Whether frames of a connection are logged.

    By the environment they are also where nobody has configured the log: on standard error.
    """
    if os.environ.get(ENVIRONMENT, "") in {"", "0"}:
        return by_option
    if not _log.hasHandlers():
        _log.addHandler(logging.StreamHandler())
    _log.setLevel(logging.DEBUG)
    return True


class FrameTrace:
    """One direction of one connection."""

    def __init__(self, arrow: str, name: str) -> None:
        self._lead = f"{name} {arrow}"
        self._rest = b""
        self._skip = 0

    def take(self, octets: bytes | memoryview) -> None:
        """Log the frames that begin in these octets."""
        rest = self._rest + octets
        self._rest = b""
        at = 0
        while at < len(rest):
            if self._skip:
                step = min(self._skip, len(rest) - at)
                self._skip -= step
                at += step
            elif rest[at:].startswith(PREFACE):
                _log.debug("%s preface", self._lead)
                at += len(PREFACE)
            elif len(rest) - at < HEAD_OCTETS + 8 and not self._is_whole(rest[at:]):
                self._rest = rest[at:]
                return
            else:
                at += self._log_frame(rest[at : at + HEAD_OCTETS + 8])

    @staticmethod
    def _is_whole(octets: bytes) -> bool:
        if len(octets) < HEAD_OCTETS:
            return False
        length: int = HEAD.unpack_from(octets)[0] >> 8
        return len(octets) >= HEAD_OCTETS + length

    def _log_frame(self, octets: bytes) -> int:
        word, flags, stream_id = HEAD.unpack_from(octets)
        length, kind = word >> 8, word & 255
        name = KIND_NAMES[kind] if kind < len(KIND_NAMES) else f"type {kind}"
        more = ""
        if kind in {RST_STREAM, GOAWAY}:
            at = HEAD_OCTETS + (4 if kind == GOAWAY else 0)
            more = f" {error_name(int.from_bytes(octets[at : at + 4], 'big'))}"
        _log.debug(
            "%s %s stream=%d flags=0x%02x length=%d%s",
            self._lead,
            name,
            stream_id,
            flags,
            length,
            more,
        )
        self._skip = length
        return HEAD_OCTETS
