"""The rules of a process between two words of the admin service, also over a restart."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from ariane.common.v1.access_rules_pb2 import AccessRules
from ariane_servicekit.clock import Clock
from ariane_servicekit.errors import StartRefused
from ariane_servicekit.files import write_whole
from ariane_servicekit.observability.logs import get_logger
from ariane_servicekit.security.gate.gate import Gate

_NOTED_MS: Final = 60_000
_SUM_BYTES: Final = 4

_log = get_logger(__name__)


class KeptRules(NamedTuple):
    """What a file has."""

    rules: AccessRules
    """The rules."""
    noted_ms: int
    """When admin had its last word on them."""


class RulesKeeper:
    """Takes new rules, and lets old ones expire.

    The file has a checksum, then the rules. Its time is that of admin's last word, to the minute.
    """

    def __init__(self, gate: Gate, path: Path | None, clock: Clock, *, hold_s_max: float) -> None:
        """Keep the rules of a gate.

        Args:
            gate: Judges by them.
            path: Their file; None to keep them in memory only.
            clock: The clock.
            hold_s_max: Seconds that they hold after the last word.
        """
        self._gate = gate
        self._path = path
        self._clock = clock
        self._hold_ms_max = int(hold_s_max * 1000)
        self._confirmed_ms = self._noted_ms = clock.now_ms()

    @property
    def version(self) -> int:
        """The version that the process acts on."""
        return self._gate.version

    def read(self) -> KeptRules | None:
        """Read the file; None if there is none. Blocks, and changes nothing.

        Raises:
            StartRefused: It is there and cannot be read: without it a user could be back who was
                disabled long ago.
        """
        if self._path is None or not self._path.exists():
            return None
        try:
            content = self._path.read_bytes()
            noted_ms = int(self._path.stat().st_mtime * 1000)
            return KeptRules(_decoded(content), noted_ms)
        except (OSError, ValueError, DecodeError) as error:
            msg = f"{self._path} cannot be read: {error}; remove it to begin without rules"
            raise StartRefused(msg) from None

    def begin(self, kept: KeptRules | None) -> None:
        """Act on what was read at the start."""
        if kept is not None:
            self._confirmed_ms = self._noted_ms = min(kept.noted_ms, self._clock.now_ms())
            self._gate.change_rules(kept.rules)
            self.check_age()

    def take(self, rules: AccessRules) -> bool:
        """Act on new rules; return whether they are newer than those that hold."""
        if rules.version <= self._gate.version:
            if rules.version < self._gate.version:
                _log.warning(
                    "older_access_rules_left", version=rules.version, held=self._gate.version
                )
            return False
        self._gate.change_rules(rules)
        return True

    def save(self, rules: AccessRules) -> None:
        """Write the file. Blocks. What cannot be written is logged: the rules hold all the same."""
        if self._path is None:
            return
        content = rules.SerializeToString()
        try:
            write_whole(self._path, zlib.crc32(content).to_bytes(_SUM_BYTES, "big") + content)
            self._path.chmod(0o600)
            self._note()
        except OSError as error:
            _log.error("access_rules_unsaved", path=str(self._path), cause=str(error))

    def confirm(self) -> None:
        """Note that admin has confirmed that the rules hold."""
        self._confirmed_ms = self._clock.now_ms()
        self._gate.change_holding(holds=True)

    async def turn(self) -> None:
        """Check the age of the rules, in a loop."""
        self.check_age()

    def check_age(self) -> None:
        """Let rules expire, and note on disk when admin last confirmed them."""
        if self._gate.version == 0:
            return
        age_ms = self._clock.now_ms() - self._confirmed_ms
        self._gate.change_holding(holds=age_ms <= self._hold_ms_max)
        if self._path is not None and self._confirmed_ms - self._noted_ms >= _NOTED_MS:
            try:
                self._note()
            except OSError as error:
                _log.warning("access_rules_unnoted", path=str(self._path), cause=str(error))

    def _note(self) -> None:
        """Note on disk when the rules were last confirmed."""
        if self._path is not None:
            self._noted_ms = self._confirmed_ms
            os.utime(self._path, (self._confirmed_ms / 1000, self._confirmed_ms / 1000))


def _decoded(content: bytes) -> AccessRules:
    body = content[_SUM_BYTES:]
    if len(content) < _SUM_BYTES or zlib.crc32(body) != int.from_bytes(content[:_SUM_BYTES], "big"):
        raise ValueError("its checksum does not fit")
    return AccessRules.FromString(body)
