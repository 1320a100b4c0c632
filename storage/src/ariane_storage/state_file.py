"""A small JSON file that is replaced as a whole and kept in two generations.

::

    topics.json            the current generation
    topics.json.bak        the one before
    topics.json.sums       checksums that either may have: {"crc32": [newest, ...]}

Saving: the new generation is written to a file of its own; the sidecar gets its checksum; the
current generation gets ``.bak`` as a second name; then the new one is renamed to the current one.
Every step is durable before the next, and after each of them a generation that the sidecar knows
has its name. Whatever takes space comes before the last renaming, which makes the change.

RocketMQ's fastjson writes integer keys without quotes, which is no JSON: reading adds the quotes. A
file of another program has no sidecar, or one that does not know it. Without a sidecar it is valid
if it parses. With a sidecar that does not know it, it is valid if it parses and does not end as
ours do, with a line feed: so RocketMQ may use the store for a while and give it back, and a flipped
bit in our file is still noticed. To edit a file of ours by hand, remove the sidecar.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from ariane_record.checksums.checksum import crc32
from ariane_storage.disk.disk import Disk, is_exhausted, is_unreadable
from ariane_storage.errors import StateFileDamaged

# A string, or a bare integer that is a key; the contents of strings are left alone.
_BARE_KEY: Final = re.compile(r'("(?:[^"\\]|\\.)*")|(-?\d+)(?=\s*:)')

_compact: Final = json.JSONEncoder(ensure_ascii=False).encode

_NUMBER_MAX: Final = float(1 << 63)
"""Numbers beyond 64 bits are none that we or a Java broker mean: 1e999 would be infinite."""

_OUR_END: Final = b"\n"
"""The end of our files, which files of fastjson do not have."""


class StateFile:
    """One file of state. Not for several threads at once."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self.used_backup = False
        """Whether the last ``load`` had to use the generation before."""
        self._disk = disk
        self._path = path
        self._backup = path.with_name(path.name + ".bak")
        self._sums = path.with_name(path.name + ".sums")

    @property
    def path(self) -> Path:
        """The current generation."""
        return self._path

    def load(self) -> dict[str, Any] | None:
        """Load the newest valid generation; None if the file never existed.

        Raises:
            StateFileDamaged: Generations exist, and none is valid. This is never read as empty.
        """
        sums, sums_reason = self._load_sums()
        reasons = []
        for path in (self._path, self._backup):
            try:
                content = self._read(path)
                if content is None:
                    reasons.append(f"{path.name} is missing")
                    continue
                state = believed_state(content, sums)
            except ValueError as error:
                reasons.append(f"{path.name} {error}")
                continue
            self.used_backup = path is self._backup
            return state
        if sums is None and not sums_reason and all(text.endswith("missing") for text in reasons):
            return None
        if sums_reason:
            reasons.append(sums_reason)
        advice = (
            f"restore it, or remove {self._sums.name} if you edited or removed the file on purpose"
        )
        raise StateFileDamaged(self._path, f"{'; '.join(reasons)}: {advice}")

    def previous(self) -> dict[str, Any] | None:
        """Load the generation before; None without a valid one."""
        sums, _ = self._load_sums()
        content = self._believed(self._backup, sums)
        return None if content is None else decode_state(content)

    def save(self, state: dict[str, Any]) -> None:
        """Replace the file durably; the present generation becomes ``.bak``.

        Raises:
            OSError: The disk failed; one of the two generations is valid. If space or descriptors
                have run out (see ``is_exhausted``), it is the old one.
        """
        content = encode_state(state)
        folder = self._path.parent
        disk = self._disk
        disk.make_folders(folder)
        written = self._path.with_name(self._path.name + ".tmp")
        disk.write(written, content)
        # An invalid generation takes no part, and never replaces a valid one.
        sums, _ = self._load_sums()
        current, backup = self._believed(self._path, sums), self._believed(self._backup, sums)
        sums_written = self._write_sums(
            [one for one in (content, current, backup) if one is not None]
        )
        is_first = current is None and backup is None
        if not is_first:
            disk.rename(sums_written, self._sums)
            disk.sync(folders=[folder])
        if current is not None:
            linked = self._backup.with_name(self._backup.name + ".tmp")
            disk.link(self._path, linked)
            disk.rename(linked, self._backup)
        disk.rename(written, self._path)
        try:
            disk.sync(folders=[folder])
            if is_first:
                # A sidecar that has its name before would report the first generation as missing.
                disk.rename(sums_written, self._sums)
                disk.sync(folders=[folder])
        except OSError as error:
            if is_exhausted(error):
                # The next start finds the new generation: this is no refusal.
                raise OSError(errno.EIO, f"saved, but not durably: {error.strerror}") from error
            raise

    def _write_sums(self, generations: list[bytes]) -> Path:
        written = self._sums.with_name(self._sums.name + ".tmp")
        sums = {"crc32": [crc32(generation) for generation in generations]}
        self._disk.write(written, json.dumps(sums).encode())
        return written

    def remove(self) -> None:
        """Remove all generations durably."""
        for path in (self._sums, self._path, self._backup):
            self._disk.remove(path)
        self._disk.sync(folders=[self._path.parent])

    def _read(self, path: Path) -> bytes | None:
        """The content of a file; None if it does not exist; ValueError if it is unreadable."""
        try:
            return self._disk.read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            if not is_unreadable(error):
                raise
            raise ValueError(f"cannot be read ({error.strerror})") from error

    def _believed(self, path: Path, sums: set[int] | None) -> bytes | None:
        """The content of a generation, if it is valid."""
        try:
            content = self._read(path)
            if content is None or _is_known(content, sums):
                return content
            believed_state(content, sums)
        except ValueError:
            return None
        return content

    def _load_sums(self) -> tuple[set[int] | None, str]:
        """The checksums in the sidecar; or None and its fault."""
        try:
            content = self._read(self._sums)
            if content is None:
                return None, ""
            return set(json.loads(content)["crc32"]), ""
        except (ValueError, RecursionError, KeyError, TypeError):
            # Then a generation is valid if it parses.
            return None, f"{self._sums.name} is damaged"


def other_shape(path: Path, error: Exception) -> StateFileDamaged:
    """The error for a state file that is valid JSON of another shape."""
    reason = f"has another shape than this release writes ({error}): restore it from a copy"
    return StateFileDamaged(path, reason)


def believed_state(content: bytes, sums: set[int] | None) -> dict[str, Any]:
    """Decode a generation if it is valid.

    Args:
        content: The generation.
        sums: Checksums of the written content; None if unknown.

    Raises:
        ValueError: It is invalid; the message is to follow the file's name.
    """
    if sums is not None and content.endswith(_OUR_END) and not _is_known(content, sums):
        raise ValueError("differs from its checksum")
    try:
        return decode_state(content)
    except ValueError as error:
        raise ValueError(f"is no JSON ({error})") from error


def _is_known(content: bytes, sums: set[int] | None) -> bool:
    """Whether we wrote a generation: then it parses, too."""
    return sums is not None and content.endswith(_OUR_END) and crc32(content) in sums


def encode_state(state: dict[str, Any]) -> bytes:
    """Encode state as JSON that a Java broker reads, one line for each entry.

    Not indented throughout, as a Java broker writes it: Python's indenting encoder takes ten times
    as long as C's, and files of ten thousand entries are saved while the broker serves.
    """
    return _lines(state, "\t", _entry_lines).encode() + _OUR_END


def _entry_lines(part: Any) -> str:
    return _lines(part, "\t\t", _compact)


def _lines(part: Any, tabs: str, text_of: Callable[[Any], str]) -> str:
    """Encode a part of the state with a line for each of its entries."""
    if isinstance(part, dict) and part:
        opening, closing = "{}"
        lines = [f"{_compact(str(key))}: {text_of(entry)}" for key, entry in part.items()]
    elif isinstance(part, (list, tuple)) and part:
        opening, closing = "[]"
        lines = list(map(text_of, part))
    else:
        return _compact(part)
    begin = f"\n{tabs}"
    return f"{opening}{begin}{f',{begin}'.join(lines)}{begin[:-1]}{closing}"


def _quoted_key(match: re.Match[str]) -> str:
    return match[1] if match[1] is not None else f'"{match[2]}"'


def _finite(text: str) -> float:
    """A number with a fraction or an exponent, which no reader of state has to fear."""
    number = float(text)
    if not abs(number) <= _NUMBER_MAX:
        raise ValueError(f"the number {text} is too large")
    return number


_decode: Final = partial(json.loads, parse_float=_finite, parse_constant=_finite)


def decode_state(content: bytes) -> dict[str, Any]:
    """Decode JSON, with or without quotes around integer keys, as an object.

    Raises:
        ValueError: The content is no JSON object.
    """
    text = content.decode()
    try:
        try:
            state = _decode(text)
        except json.JSONDecodeError:
            state = _decode(_BARE_KEY.sub(_quoted_key, text))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(state, dict):
        raise ValueError("not an object")  # noqa: TRY004 - the content is wrong, not a type.
    return state
